"""Optimizers. minimize(loss) is an action: one program computes the loss, its gradients and the new variables."""

import numpy

from .core import Variable, assign, gradients, group, op, variables_of


class Optimizer:
    def minimize(self, loss, variables=None):
        """variables: the ones to change; by default all trainable variables that the loss reads."""
        variables = variables or [v for v in variables_of(loss) if v.trainable]
        return group(*(action for v, g in zip(variables, gradients(loss, variables)) for action in self.update(v, g)),
                     *self.common())

    def common(self):
        return ()

    def _slot(self, variable, name):
        """A variable of the same shape, of zeros."""
        return _Slot(variable, f"{variable.name}_{name}")


class _Slot(Variable):
    def __init__(self, of, name):
        super().__init__(name=name, trainable=False, first=numpy.zeros)
        self.of = of

    @property
    def sizes(self):
        return self.of.sizes

    @sizes.setter
    def sizes(self, value):
        pass


class GradientDescentOptimizer(Optimizer):
    def __init__(self, learning_rate):
        self.rate = learning_rate

    def update(self, v, g):
        return [assign(v, v - g * self.rate)]


class MomentumOptimizer(Optimizer):
    def __init__(self, learning_rate, momentum=0.9):
        self.rate, self.momentum = learning_rate, momentum

    def update(self, v, g):
        speed = self._slot(v, "speed")
        new = speed * self.momentum + g
        return [assign(speed, new), assign(v, v - new * self.rate)]


class AdamOptimizer(Optimizer):
    """Kingma and Ba, 2015; the bias correction is in the step's length."""

    def __init__(self, learning_rate=1e-3, beta1=0.9, beta2=0.999, epsilon=1e-4):
        self.rate, self.beta1, self.beta2, self.epsilon = learning_rate, beta1, beta2, epsilon
        self.steps = Variable(0.0, name="adam_steps", trainable=False)
        self.next = self.steps + 1
        self.length = learning_rate * op("sqrt", 1 - beta2 ** self.next) / (1 - beta1 ** self.next)

    def common(self):
        return [assign(self.steps, self.next)]

    def update(self, v, g):
        m, s = self._slot(v, "m"), self._slot(v, "s")
        new_m = m * self.beta1 + g * (1 - self.beta1)
        new_s = s * self.beta2 + g * g * (1 - self.beta2)
        return [assign(m, new_m), assign(s, new_s), assign(v, v - self.length * new_m / (op("sqrt", new_s) + self.epsilon))]

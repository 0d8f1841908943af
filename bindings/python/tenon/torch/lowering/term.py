"""Terms: Values with Python's arithmetic operators, for rows that are formulas. Tested by tests/torch/test_lower.py.
"""


class Term:
    """A Value. A number that meets it in an operation takes its dtype."""

    def __init__(self, e, value):
        self.e, self.value = e, value

    def of(self, x):
        return x if isinstance(x, Term) else Term(self.e, self.e.scalar_like(self.value, x))

    def map(self, head, *others):
        return Term(self.e, self.e.map(head, self.value, *(self.of(o).value for o in others)))

    def reduce(self, head, axes, keepdims=True):
        """axes: at least one."""
        return Term(self.e, self.e.reduce(head, self.value, axes, keepdims))

    def where(self, a, b):
        """a where this Term is true, else b. At least one of a and b is a Term."""
        term = a if isinstance(a, Term) else b
        return self.map("where", term.of(a), term.of(b))

    def polynomial(self, coefficients):
        """The polynomial of this Term. coefficients: the highest power first."""
        total = self.of(coefficients[0])
        for c in coefficients[1:]:
            total = total.map("fma", self, c)
        return total

    def __add__(self, other):
        return self.map("add", other)

    def __sub__(self, other):
        return self.map("sub", other)

    def __mul__(self, other):
        return self.map("mul", other)

    def __truediv__(self, other):
        return self.map("div", other)

    def __rsub__(self, other):
        return self.of(other) - self

    def __rtruediv__(self, other):
        return self.of(other) / self

    def __neg__(self):
        return self.map("neg")

    __radd__, __rmul__ = __add__, __mul__

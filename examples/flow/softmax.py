"""Softmax regression on generated digits: one layer, gradient descent."""

import numpy

import flow as tf
from digits import digits

x, y = tf.placeholder(shape=(None, 784)), tf.placeholder(shape=(None,))
weight, bias = tf.Variable(tf.zeros((10, 784))), tf.Variable(tf.zeros((10,)))
logits = tf.nn.linear(x, 10, weight, bias)
loss = tf.nn.mean_sparse_softmax_cross_entropy_with_logits(logits, y)
step = tf.train.GradientDescentOptimizer(0.2).minimize(loss)
accuracy = tf.reduce_mean(tf.equal(tf.argmax(logits, 1), y))

pictures, labels = digits(4000)
session = tf.Session()
session.run(tf.initialize_all_variables())
for i in range(300):
    part = numpy.arange(100 * i, 100 * (i + 1)) % 4000
    session.run(step, {x: pictures[part].reshape(-1, 784), y: labels[part]})
pictures, labels = digits(1000, seed=1)
print(f"accuracy {session.run(accuracy, {x: pictures.reshape(-1, 784), y: labels}):.3f}")

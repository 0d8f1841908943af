"""LeNet on generated digits, with Adam. A step (loss, gradients, optimizer) is one program."""

import sys
import time

import numpy

import flow as tf
from digits import digits

BATCH = 100


def lenet(x):
    h = tf.nn.max_pool(tf.nn.tanh(tf.nn.conv2d(x, 20, ksize=(5, 5), no_bias=False, name="conv1")))
    h = tf.nn.max_pool(tf.nn.tanh(tf.nn.conv2d(h, 50, ksize=(5, 5), no_bias=False, name="conv2")))
    h = tf.nn.tanh(tf.nn.linear(tf.nn.flatten_layer(h), 500, name="fc1"))
    return tf.nn.linear(h, 10, name="fc2")


def main(steps=200):
    x, y = tf.placeholder(shape=(None, 1, 28, 28)), tf.placeholder(shape=(None,))
    logits = lenet(x)
    loss = tf.nn.mean_sparse_softmax_cross_entropy_with_logits(logits, y)
    step = tf.train.AdamOptimizer(0.002).minimize(loss)
    accuracy = tf.reduce_mean(tf.equal(tf.argmax(logits, 1), y))
    session, start = tf.Session(), time.perf_counter()
    session.run(tf.initialize_all_variables())
    pictures, labels = digits(4000)
    for i in range(steps):
        part = numpy.arange(BATCH * i, BATCH * (i + 1)) % len(labels)
        value, _ = session.run([loss, step], {x: pictures[part], y: labels[part]})
        if i % 50 == 0:
            print(f"step {i:4}  loss {value:.3f}")
    took = time.perf_counter() - start
    pictures, labels = digits(1000, seed=1)
    right = session.run(accuracy, {x: pictures, y: labels})
    print(f"accuracy {right:.3f} after {steps} steps in {took:.1f} s")
    return right


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

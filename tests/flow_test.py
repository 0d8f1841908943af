"""examples/flow: tensors, variables, gradients, layers and optimizers on the C ABI, compared with NumPy."""

import gc
import re
import resource
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "flow"
sys.path.insert(0, str(EXAMPLE))
import flow as tf  # noqa: E402
from digits import digits  # noqa: E402

RNG = numpy.random.default_rng(0)


def array(*shape):
    return RNG.standard_normal(shape).astype("float32")


@pytest.fixture
def session():
    s = tf.Session()
    s.run(tf.initialize_all_variables())
    return s


def close(got, want, rtol=1e-5):
    numpy.testing.assert_allclose(got, want, rtol=rtol, atol=1e-5)


A, B = array(3, 4), numpy.abs(array(3, 4)) + 0.5
x, y = tf.placeholder(shape=(None, 4)), tf.placeholder(shape=(None, 4))
OPS = {
    "add": (x + y, A + B), "add number": (x + 3, A + 3), "number minus": (3 - x, 3 - A), "minus": (x - 1.5, A - 1.5),
    "mul": (x * y, A * B), "div": (x / y, A / B), "number over": (1 / y, 1 / B), "over number": (x / 4, A / 4),
    "sigmoid": (1 / (1 + tf.exp(-x)), 1 / (1 + numpy.exp(-A))), "square": (y ** 2, B ** 2), "power of a number": (2 ** x, 2 ** A),
    "power": (y ** x, B ** A), "log": (tf.log(y), numpy.log(B)), "sqrt": (tf.sqrt(y), numpy.sqrt(B)),
    "matmul": (tf.matmul(x, tf.transpose(y, [1, 0])), A @ B.T), "sum": (tf.reduce_sum(x), A.sum()),
    "sum of an axis": (tf.reduce_sum(x, 1), A.sum(1)), "mean": (tf.reduce_mean(x, [0]), A.mean(0)),
    "softmax": (tf.nn.softmax(x), numpy.exp(A) / numpy.exp(A).sum(1, keepdims=True)), "argmax": (tf.argmax(x, 1), A.argmax(1)),
    "equal": (tf.equal(x, x), numpy.ones((3, 4))), "zeros_like": (tf.zeros_like(x), A * 0), "ones_like": (tf.ones_like(x), A * 0 + 1),
    "zeros": (tf.zeros((2, 3)), numpy.zeros((2, 3))), "small number": (x * 1e-7, A * 1e-7),
}


@pytest.mark.parametrize("name", OPS)
def test_ops(session, name):
    tensor, want = OPS[name]
    read = {p: v for p, v in ((x, A), (y, B)) if name not in ("zeros",)}
    close(session.run(tensor, read), want, 1e-4)


def test_gradients(session):
    gx, gy = tf.gradients(tf.reduce_sum(x * y * y), [x, y])
    close(session.run(gx, {x: A, y: B}), B * B)
    close(session.run([gx, gy], {x: A, y: B})[1], 2 * A * B)
    close(session.run(tf.gradients([x * 2, x * y], x)[0], {x: A, y: B}), 2 + B)
    close(session.run(tf.gradients(x * y, x, [y])[0], {x: A, y: B}), B * B)
    close(session.run(tf.gradients(tf.stop_gradient(x) * x, x)[0], {x: A}), A)
    second = tf.gradients(tf.gradients(x ** 3, x)[0], x)[0]
    close(session.run(second, {x: B}), 6 * B)


def test_a_program_serves_all_batch_sizes(session):
    out = tf.nn.relu(x)
    for n in (1, 7, 32):
        a = array(n, 4)
        close(session.run(out, {x: a}), numpy.maximum(a, 0))
    assert len(session.calls) == 1


def test_states(session):
    v = tf.Variable(tf.ones((2, 3)), name="v")
    add = tf.assign(v, v + 1)
    assert session.run([v, add])[0].tolist() == [[1] * 3] * 2  # a fetch sees the value before the assignment
    session.run(add)
    close(session.run(v), numpy.full((2, 3), 3))
    w = tf.Variable(numpy.arange(3.0))
    session.run(tf.group(tf.assign(w, w * 2), tf.assign(v, v * w)))  # both read the former values
    close(session.run(v), numpy.full((2, 3), 3) * numpy.arange(3))
    close(session.run(w), numpy.arange(3) * 2)
    session.run(tf.initialize_all_variables())
    close(session.run(w), numpy.arange(3))


def test_what_is_wrong_is_said():
    s, v = tf.Session(), tf.Variable(1.0, name="v")
    with pytest.raises(tf.FlowError, match="v is not initialized"):
        s.run(v)
    s.run(tf.initialize_all_variables())
    with pytest.raises(tf.FlowError, match="is not fed"):
        s.run(x + 1)
    with pytest.raises(tf.FlowError, match="has 2 axes, the array that is fed has shape"):
        s.run(x + 1, {x: array(3)})
    with pytest.raises(tf.FlowError, match="got shape"):
        s.run(x + 1, {x: array(3, 5)})
    with pytest.raises(tf.FlowError, match="axis|shape|size"):
        s.run(x + y, {x: array(3, 4), y: array(2, 4)})
    with pytest.raises(TypeError, match="a fetch is a Tensor or an Action"):
        s.run(3)
    close(s.run(v), 1)


def test_a_tensor_may_be_fetched_twice(session):
    v = tf.Variable(tf.ones((2,)))
    session.run(tf.initialize_all_variables())
    y, a = tf.nn.relu(x), array(2, 4)
    first, second = session.run([y, y], {x: a})
    close(first, numpy.maximum(a, 0))
    close(second, first)
    assert [r.tolist() for r in session.run([v, v, tf.assign(v, v + 1)])[:2]] == [[1, 1]] * 2
    assert session.run(v).tolist() == [2, 2]


def test_a_variable_keeps_its_shape(session):
    v = tf.Variable(tf.ones((2, 3)), name="v")
    session.run(tf.initialize_all_variables())
    for shape in ((3, 2), (2, 4), (6,)):
        with pytest.raises(tf.FlowError, match=re.escape(f"v has shape [2, 3], the value assigned to it has shape {list(shape)}")):
            session.run(tf.assign(v, numpy.zeros(shape)))
        assert session.run(v).tolist() == [[1] * 3] * 2     # as before


def test_shapes_are_inferred(session):
    data = tf.placeholder(shape=(None, 1, 28, 28))
    net = tf.nn.flatten_layer(tf.nn.max_pool(tf.nn.conv2d(data, 20, ksize=(5, 5), name="c")))
    net = tf.nn.linear(net, 10, name="f")
    found = {name: shape for _, name, shape in tf.infer_variable_shapes(net, {data: (32, 1, 28, 28)})}
    assert found == {"c_weight": [20, 1, 5, 5], "f_weight": [10, 2880], "f_bias": [10]}
    assert session.run(net, {data: array(3, 1, 28, 28)}).shape == (3, 10)


def test_batch_normalization(session):
    data = tf.placeholder(shape=(None, 3, 4, 4))
    net = tf.nn.batch_normalization(data, momentum=0.5)
    a = array(6, 3, 4, 4) * 2 + 1
    mean, var = a.mean((0, 2, 3)), a.var((0, 2, 3))
    running = net.variables[2:]
    step = tf.train.GradientDescentOptimizer(0.0).minimize(tf.reduce_sum(net))
    got, _ = session.run([net, step], {data: a})  # the batch's statistics
    close(got, (a - mean[:, None, None]) / numpy.sqrt(var[:, None, None] + 1e-5), 1e-4)
    close(session.run(running[0]), mean / 2, 1e-4)
    close(session.run(running[1]), 0.5 + var / 2, 1e-4)
    got = session.run(net, {data: a})  # the running ones
    close(got, (a - mean[:, None, None] / 2) / numpy.sqrt(0.5 + var[:, None, None] / 2 + 1e-5), 1e-4)


def adam(w, g, m, s, t, rate=1e-3, b1=0.9, b2=0.999, eps=1e-4):
    m, s = b1 * m + (1 - b1) * g, b2 * s + (1 - b2) * g * g
    return w - rate * numpy.sqrt(1 - b2 ** t) / (1 - b1 ** t) * m / (numpy.sqrt(s) + eps), m, s


@pytest.mark.parametrize("name", ["descent", "momentum", "adam"])
def test_optimizers(session, name):
    start = array(4, 2)
    w = tf.Variable(start)
    loss = tf.reduce_sum(tf.matmul(x, w) ** 2)
    optimizer = {"descent": tf.train.GradientDescentOptimizer(0.01), "momentum": tf.train.MomentumOptimizer(0.01, 0.8),
                 "adam": tf.train.AdamOptimizer(0.01)}[name]
    step, want, m, s = optimizer.minimize(loss), start.astype("float64"), 0, 0
    for t in range(1, 5):
        a = array(5, 4)
        value, _ = session.run([loss, step], {x: a})
        close(value, ((a @ want) ** 2).sum(), 1e-3)
        g = 2 * a.T @ (a @ want)
        if name == "adam":
            want, m, s = adam(want, g, m, s, t, 0.01)
        else:
            m = g + (0.8 * m if name == "momentum" else 0)
            want = want - 0.01 * m
        close(session.run(w), want, 1e-3)
    assert len(session.calls) <= 3  # the step, and the variable


def test_sessions_do_not_share_values():
    v = tf.Variable(1.0)
    one, two = tf.Session(), tf.Session()
    for s in (one, two):
        s.run(tf.initialize_all_variables())
    one.run(tf.assign(v, v + 1))
    assert (one.run(v), two.run(v)) == (2, 1)


def test_a_hundred_sessions_leave_nothing_behind():
    """Each runs a step of training, compiles its own program, and ends. The memory of the process stays what it is after a few."""
    data = tf.placeholder(shape=(None, 64))
    w = tf.Variable(array(64, 32) * 0.1)
    loss = tf.reduce_mean(tf.reduce_sum(tf.matmul(data, w) ** 2, 1), [0])
    step = tf.train.GradientDescentOptimizer(0.001).minimize(loss)
    given = {data: array(512, 64)}

    def sessions(count):
        for _ in range(count):
            s = tf.Session()
            s.run(tf.initialize_all_variables())
            s.run([loss, step], given)
        gc.collect()
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    before = sessions(20)
    assert sessions(100) - before < 4 << 20


def test_lenet_learns(session):
    from lenet import lenet
    data, labels = tf.placeholder(shape=(None, 1, 28, 28)), tf.placeholder(shape=(None,))
    loss = tf.nn.mean_sparse_softmax_cross_entropy_with_logits(lenet(data), labels)
    step = tf.train.AdamOptimizer(0.002).minimize(loss)
    pictures, right = digits(64)
    losses = [session.run([loss, step], {data: pictures, labels: right})[0] for _ in range(12)]
    assert losses[-1] < 0.7 * losses[0]
    text = session.explain([loss, step], {data: pictures, labels: right})
    assert text.count(" updates ") == 8 * 3 + 1 and "reference" not in text  # weight, two slots; the number of steps


def test_softmax_regression_runs():
    done = subprocess.run([sys.executable, EXAMPLE / "softmax.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split()[1]) > 0.3

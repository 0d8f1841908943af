"""Cuts the joint graph that AOTAutograd traces into a forward and a backward graph, and chooses what the forward graph saves.

Tested by tests/torch/test_training.py.
"""

from torch._functorch.partitioners import min_cut_rematerialization_partition

from . import images, rng


def partition(joint, inputs, *, num_fwd_outputs, options, **named):
    """A partitioner for AOTAutograd. options: Options."""
    if options.rng == "torch":
        rng.plant_masks(joint)  # now, because a mask cannot be drawn again, but a product with it can be computed again
    forward, backward = min_cut_rematerialization_partition(joint, inputs, num_fwd_outputs=num_fwd_outputs, **named)
    images.lay_out(forward, backward, num_fwd_outputs)
    return forward, backward

"""Shrinks a failing random program to as few outputs, statements and inputs as still fail in the same way.

A statement is removed if no other uses it; otherwise it is replaced by an input with the shapes of its value. Unusual layouts of
inputs become dense ones. Every step is tried with the real compiler and kept if the program still fails in the same way. Tested
by tests/campaign/campaign_test.py.
"""

import copy
import re
import time

import torch

from . import grammar


def uses(name, text):
    return re.search(rf"\b{name}\b", text) is not None


def without_dead(program):
    """Drops statements and inputs whose values are not read. Keeps mutations, which may act through a view."""
    while True:
        texts = [text for _, text in program.statements] + program.outputs
        dead = [s for i, s in enumerate(program.statements) if s[0] and not any(uses(s[0], t) for j, t in enumerate(texts) if j != i)]
        inputs = [i for i in program.inputs if any(uses(i.name, t) for t in texts + [line.split("=", 1)[1] for o in program.inputs
                                                                                    if o is not i for line in o.lines])]
        if not dead and len(inputs) == len(program.inputs):
            return program
        program.statements = [s for s in program.statements if s not in dead]
        program.inputs = inputs or program.inputs[:1]
        if not dead and len(program.inputs) == 1:
            return program


def values_of(program):
    """Per choice of sizes: name -> (shape, dtype)."""
    space = grammar.load(program.source())
    found = []
    with torch.no_grad():
        for s in range(3):
            env = {"torch": torch, "F": torch.nn.functional}
            env.update(zip((i.name for i in program.inputs), space["inputs"](s)))
            for name, text in program.statements:
                exec(f"{name} = {text}" if name else text, env)
            found.append({n: (tuple(t.shape), t.dtype) for n, t in env.items() if isinstance(t, torch.Tensor)})
    return found


def plain_input(name, found):
    shapes, dtype = [f[name][0] for f in found], found[0][name][1]
    text = str(shapes[0]) if len(set(shapes)) == 1 else f"{shapes}[s]"
    make = f"torch.randn({text})" if dtype.is_floating_point else f"torch.randint(0, {2 if dtype == torch.bool else 4}, {text})"
    return grammar.Input(name, [f"{name} = {make}{'' if dtype == torch.float32 else f'.to({dtype})'}"])


def shrink(program, fails, seconds):
    """The smallest program with fails(program) that is found in this much processor time."""
    deadline = time.process_time() + seconds
    best = program

    def attempt(change):
        nonlocal best
        if time.process_time() > deadline:
            return False
        candidate = copy.deepcopy(best)
        try:
            change(candidate)
            candidate = without_dead(candidate)
            if candidate.source() == best.source():
                return False
            ok = fails(candidate)
        except Exception:
            return False
        if ok:
            best = candidate
        return ok

    def only(name):
        def change(p):
            p.outputs = [name]
        return change

    def static(p):
        p.dynamic = False

    for name in dict.fromkeys(program.outputs):
        if attempt(only(name)):
            break
    attempt(static)
    progress = True
    while progress and time.process_time() < deadline:
        progress = False
        for k in reversed(range(len(best.statements))):
            if k >= len(best.statements):
                continue

            def drop(p):
                del p.statements[k]

            def promote(p):
                name = p.statements[k][0]
                made = plain_input(name, values_of(p))
                del p.statements[k]
                p.inputs.append(made)

            def head(p):        # what comes after is not needed
                p.outputs = [p.statements[k][0]]
                del p.statements[k + 1:]

            if best.statements[k][0] and k + 1 < len(best.statements) and attempt(head):
                progress = True
            elif attempt(drop) or (best.statements[k][0] and attempt(promote)):
                progress = True
        for i in range(len(best.inputs)):
            def simple(p):
                p.inputs[i] = plain_input(p.inputs[i].name, values_of(p))

            def gone(p):
                p.outputs = [o for o in p.outputs if o != p.inputs[i].name]
                del p.inputs[i]

            attempt(simple)
        for j in reversed(range(len(best.outputs))):
            def fewer(p):
                del p.outputs[j]

            if len(best.outputs) > 1 and attempt(fewer):
                progress = True
    return best

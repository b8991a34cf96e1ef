"""The flat program and its tape: few exponentials, parameters in order, and what is tabled for evenly spaced inputs."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.compute.program import Affine, LeafNode, Program, Term, compile_program
from mercer.compute.tape import AFFINE, CODE, EXP, PRODUCT, build_tape
from mercer.kernels import CPER, LIN, PER, REGISTRY, RQ, SE, SM, WN, C, bind, parse
from mercer.kernels.parameters import layout, values_of

TEXTS = (
    *(symbol for symbol, leaf in REGISTRY.items() if not leaf.coded),  # those act on one column
    "SE*ECAT2(0) + ECAT(0)",
    "SE*PER + LIN*RQ + SE*LIN + PER*RQ",
    "SE*(PER + LIN*(RQ + C)) + WN",
    "(SE + LIN)*(M12 + CPER*COS)*(M32 + C*M52)",
    "SM2*(SE + C) + CPER*LIN*LIN",
    "C*C*WN + COS*(LIN + LIN)*SE",
    "((SE + C)*PER + LIN)*(RQ + WN*(M12 + SM1))",
)


def compiled(text: str, dimensions: int = 1) -> Program:
    return compile_program(bind(parse(text), dimensions))


def children_of(node: LeafNode | Term | Affine) -> tuple[int, ...]:
    if isinstance(node, LeafNode):
        return ()
    return node.children if isinstance(node, Affine) else node.logs + node.factors


@pytest.mark.parametrize("dimensions", [1, 3])
@pytest.mark.parametrize("text", TEXTS)
def test_every_program_is_in_order_and_reads_every_value(text: str, dimensions: int) -> None:
    expression = bind(parse(text), dimensions)
    program = compile_program(expression)
    assert program.n_values == len(values_of(expression)) == layout(expression).n_values
    assert program.dimensions in (0, dimensions)
    read = set()
    for number, node in enumerate(program.nodes):
        assert all(child < number for child in children_of(node))
        if isinstance(node, Affine):
            read |= {place for weight in node.weights for place in weight}
        if isinstance(node, LeafNode):
            read |= {o + i for o, size in zip(node.offsets, node.sizes, strict=True) for i in range(size)}
        if isinstance(node, Term):
            kinds = [program.nodes[n] for n in node.logs]
            assert all(isinstance(leaf, LeafNode) and leaf.flags.log_form for leaf in kinds)
            assert not any(isinstance(f := program.nodes[n], LeafNode) and f.flags.log_form for n in node.factors)
    assert read == set(range(program.n_values))
    used = {child for node in program.nodes for child in children_of(node)}
    assert used == set(range(len(program.nodes) - 1))
    assert isinstance(program.nodes[-1], Affine)


@pytest.mark.parametrize("text", TEXTS)
def test_every_tape_is_in_order_on_both_paths(text: str) -> None:
    expression = bind(parse(text), 1)
    program = compile_program(expression)
    for even in (False, True):
        tape = build_tape(program, even)
        assert list(tape.main) == sorted(tape.main)
        assert tape.main[-1] == len(tape.nodes) - 1
        assert (tape.nodes[-1, CODE]) == AFFINE
        assert len(tape.weight_start) == len(tape.edge_child) + 1
        if not even:
            assert len(tape.main) == len(tape.nodes)
            assert tape.n_slots == len(tape.lagged) == 0
        stationary = all(leaf.spec.stationary for leaf in expression.leaves())
        if even and stationary:
            assert list(tape.main) == [len(tape.nodes) - 1]
            assert tape.n_slots == 1


def test_a_product_of_positive_kernels_costs_one_exponential() -> None:
    program = compiled("SE*PER*RQ*M12*M32*M52")
    assert program.nodes[-2] == Term((0, 1, 2, 3, 4, 5), ())
    tape = build_tape(program, even=False)
    assert list(tape.nodes[:, CODE]).count(EXP) == 1
    assert PRODUCT not in tape.nodes[:, CODE]


def test_nested_products_are_one_term_and_nested_sums_are_nodes() -> None:
    program = compiled("SE * (PER * (LIN + RQ)) + C")
    last = program.nodes[-1]
    assert isinstance(last, Affine)
    inner = next(i for i, n in enumerate(program.nodes) if isinstance(n, Affine))
    term = program.nodes[last.children[0]]
    assert isinstance(term, Term)
    assert len(term.logs) == 2
    assert term.factors == (inner,)
    assert program.nodes[last.children[1]] == Term((), ())


def test_variances_are_weights_of_the_sum() -> None:
    program = compile_program(bind(SE(0) * PER(0) + C(), 1))
    last = program.nodes[-1]
    assert isinstance(last, Affine)
    assert last.weights == ((0, 2), (5,))


def test_a_mixture_becomes_a_sum_of_waves_under_envelopes() -> None:
    program = compile_program(bind(SM(0, 1, components=3), 2))
    kinds = [node.kind for node in program.nodes if isinstance(node, LeafNode)]
    assert kinds == ["ENVELOPE", "COS"] * 3
    assert program.n_values == 1 + 3 + 6 + 6


def test_centred_periodic_on_two_columns_is_a_product() -> None:
    program = compile_program(bind(CPER(0, 1), 2))
    assert program.nodes[2] == Term((), (0, 1))


def test_only_the_structure_decides_the_program() -> None:
    one = compile_program(bind(SE(0, lengthscale=1) * PER(0, period=3) + LIN(0), 1))
    assert one == compiled("SE(0)*PER(0) + LIN(0)")
    assert one != compiled("SE(0)*PER(0) + SE(0)")


def test_the_stationary_part_of_a_product_is_tabled_as_one() -> None:
    tape = build_tape(compiled("SE*CPER*LIN*WN"), even=True)
    assert tape.n_slots == 1
    (tabled,) = np.flatnonzero(tape.slot >= 0)
    assert tape.nodes[tabled, CODE] == PRODUCT
    assert len(tape.main) == 4  # LIN, the tabled product, their product, the weighted sum


def test_nothing_is_tabled_of_a_kernel_that_is_not_stationary() -> None:
    tape = build_tape(compiled("LIN"), even=True)
    assert tape.n_slots == 0
    assert list(tape.main) == [0, 1]


def test_programs_of_kernels_without_inputs_run_on_any_data() -> None:
    assert compiled("C").dimensions == 0
    assert compile_program(bind(WN(2) + RQ(0), 5)).dimensions == 3
    assert compile_program(bind(PER(), 4)).dimensions == 4

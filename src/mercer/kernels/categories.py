"""Columns of categories: what a kernel without columns means on a table that has some, and which kernels may be there.

Codes of categories have no order and no distance: of two rows one can only say whether they agree. So CAT (and white
noise) may look at such a column, and no other base kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mercer.errors import KernelError
from mercer.kernels.blend import Blend
from mercer.kernels.expression import Base, Expression, Sum, build_base, product_of, sum_of
from mercer.kernels.network import Network


def spread_over_categories(expression: Expression, numbers: Sequence[int], categories: Sequence[int]) -> Expression:
    """Return the kernel with CAT on each column of categories, where it names none of its own.

    A base kernel without columns is about all of them: "SE" becomes SE(numbers) * CAT(category), one function for each
    category with something in common; "LIN" becomes LIN(numbers) + CAT(category), as a line has no place for categories
    but beside it. Where there are no numbers CAT is all there is.
    """
    if not categories or any(leaf.spec.words.role == "levels" for leaf in expression.leaves()):
        return expression
    levels = [build_base("CAT", column) for column in categories]
    return _spread(expression, levels, bool(numbers))


def _spread(node: Expression, levels: list[Base], has_numbers: bool) -> Expression:
    if isinstance(node, Sum | Blend | Network):
        parts = [_spread(child, levels, has_numbers) for child in node.children]
        if isinstance(node, Network):  # a primitive is no sum: a line stays as it is
            parts = [old if isinstance(new, Sum) else new for old, new in zip(node.children, parts, strict=True)]
        return node.with_children(parts)
    everywhere = [leaf for leaf in node.leaves() if leaf.dims is None and not takes_categories(leaf)]
    if not everywhere:
        return node
    if not has_numbers:
        return product_of(levels)
    if all(leaf.spec.words.role in ("trend", "constant") for leaf in node.leaves()):
        return sum_of([node, *levels])
    return product_of([node, *levels])


def takes_categories(leaf: Base) -> bool:
    """Tell whether a base kernel may act on codes of categories: it asks only whether two of them agree."""
    return leaf.spec.categorical or not leaf.spec.uses_inputs


def refuse_distances(text: str, name: str) -> KernelError:
    """Return the error about a kernel that would measure distances between categories."""
    return KernelError(
        f"{text} acts on '{name}', a column of categories, between which there are no distances: use CAT({name}), or "
        f"multiply by it, as in SE(x) * CAT({name})"
    )


def check_codes(bound: Expression, categories: Mapping[int, int], names: Sequence[str]) -> None:
    """Refuse a kernel with a number for each category on a column of something else, or of more or fewer of them.

    categories : columns of codes, each with how many categories there are.
    """
    for leaf in bound.leaves():
        if not leaf.spec.coded:
            continue
        (column,) = leaf.columns
        if column not in categories:
            raise KernelError(
                f"{leaf.text(digits=4)} has a place for each category, but '{names[column]}' does not hold categories "
                "here: make it texts in a table, or use CAT"
            )
        wanted = categories[column] - 1
        if leaf.components != wanted:
            raise KernelError(
                f"{leaf.text(digits=4)} has places for {leaf.components + 1} categories, and '{names[column]}' has "
                f"{wanted + 1}: write {leaf.symbol}{wanted}({names[column]}), the first being at zero"
            )

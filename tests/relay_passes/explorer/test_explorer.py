"""The explorer on synthetic graphs: legal plans, close to the best, in time that grows linearly."""

from __future__ import annotations

import random

import pytest

from relay_passes.explorer import Dag, Pattern, assemble, candidates, improve
from relay_passes.explorer.dag import Nodes
from relay_passes.explorer.kernels import Kernels
from relay_passes.explorer.order import without_cycles
from relay_passes.policy import POLICY
from support import explorer_graphs as eg

SEARCH = POLICY.fusion.search
SMALL = 120  # graphs whose optimum is found by brute force
GRAPHS = {"chain": eg.chain, "wide": eg.wide, "blocks": eg.blocks, "dense": eg.dense}


def found(dag: Dag, judge: eg.BytesJudge) -> list[list[Pattern]]:
    return candidates(dag, judge, SEARCH.top, SEARCH.leaf)


def assembled(dag: Dag, patterns: list[list[Pattern]]) -> list[list[Pattern]]:
    return assemble(dag, patterns, SEARCH.width)


def improved(dag: Dag, judge: eg.BytesJudge, plan: list[Pattern]) -> list[Pattern]:
    return improve(dag, judge, plan, SEARCH.rounds, SEARCH.pack_reach)


def explored(dag: Dag, judge: eg.BytesJudge) -> list[Pattern]:
    plans = [improved(dag, judge, plan) for plan in assembled(dag, found(dag, judge))]
    return max(plans, key=lambda plan: sum(p.score for p in plan))


def gain(plan: list[Pattern]) -> float:
    return sum(p.score for p in plan)


def assert_legal(dag: Dag, judge: eg.BytesJudge, plan: list[Pattern]) -> None:
    taken = [n for p in plan for n in p.nodes]
    assert len(taken) == len(set(taken))
    for pattern in plan:
        assert judge.score(pattern.nodes) == pattern.score
        assert judge.accepts(pattern.nodes)
        assert dag.is_convex(pattern.nodes)
    assert without_cycles(dag, plan) == plan


def reaches(dag: Dag, source: int, target: int) -> bool:
    stack, seen = [source], set()
    while stack:
        node = stack.pop()
        if node == target:
            return True
        if node not in seen:
            seen.add(node)
            stack += dag.consumers[node]
    return False


def test_convex_means_no_way_out_and_back_in():
    rng = random.Random(0)
    for _ in range(300):
        dag = eg.random_dag(rng, 9)
        nodes = frozenset(rng.sample(range(9), rng.randrange(1, 6)))
        outside = set(range(9)) - nodes
        bridged = any(
            reaches(dag, a, x) and reaches(dag, x, b) for a in nodes for x in outside for b in nodes
        )
        assert dag.is_convex(nodes) == (not bridged)


def test_edges_against_the_numbering_are_refused():
    with pytest.raises(ValueError, match="topological"):
        Dag([[], [0]])


@pytest.mark.parametrize("seed", range(20))
def test_plans_are_legal(seed):
    rng = random.Random(seed)
    dag = eg.random_dag(rng, 60)
    judge = eg.BytesJudge(dag, seed)
    known = found(dag, judge)
    for node, patterns in enumerate(known):
        assert len(patterns) <= 3
        assert all(min(p.nodes) == node and len(p.nodes) > 1 for p in patterns)
        assert [p.score for p in patterns] == sorted((p.score for p in patterns), reverse=True)
    for plan in assembled(dag, known):
        assert_legal(dag, judge, plan)
        better = improved(dag, judge, plan)
        assert_legal(dag, judge, better)
        assert gain(better) >= gain(plan)


@pytest.mark.long
def test_plans_are_close_to_the_best_of_all_partitions(capsys):
    lost = []
    for seed in range(SMALL):
        rng = random.Random(seed)
        dag = eg.random_dag(rng, rng.randrange(4, 11))
        judge = eg.BytesJudge(dag, seed)
        best, got = eg.optimum(dag, judge), gain(explored(dag, judge))
        assert got <= best + 1e-6
        lost.append(((best - got) / best if best else 0.0, seed, len(dag), best, got))
    worst = sorted(lost, reverse=True)[:5]
    with capsys.disabled():
        print("\nworst plans of the explorer, of", SMALL)
        for share, seed, ops, best, got in worst:
            print(f"  seed {seed}, {ops} ops: gain {got:.0f} of {best:.0f}, {share:.0%} lost")
    assert sum(share for share, *_ in lost) / SMALL <= 0.05


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(GRAPHS))
def test_what_is_scored_grows_with_the_graph_no_faster(name):
    asked = []
    for count in (500, 2000):
        dag = GRAPHS[name](count)
        judge = eg.BytesJudge(dag)
        assert_legal(dag, judge, explored(dag, judge))
        asked.append(judge.asked / count)
    assert asked[1] <= 2 * asked[0]


def test_two_patterns_that_need_each_other_are_parted():
    crossed = Dag([[3], [2], [], []])
    one, other = Pattern(frozenset((0, 2)), 5.0), Pattern(frozenset((1, 3)), 4.0)
    assert without_cycles(crossed, [one, other]) == [one]
    assert without_cycles(crossed, [other]) == [other]


@pytest.mark.parametrize("seed", range(30))
def test_joins_keep_an_order_of_execution(seed):
    rng = random.Random(seed)
    dag = eg.random_dag(rng, 25)
    kernels = Kernels(dag, [])
    for _ in range(60):
        one, other = rng.sample(range(25), 2)
        if kernels.of(one) is kernels.of(other):
            continue
        whole: Nodes = kernels.of(one) | kernels.of(other)
        merged = [k for k in kernels.all() if not k & whole] + [whole]
        plan = [Pattern(k, 1.0) for k in merged if len(k) > 1]
        legal = without_cycles(dag, plan) == plan
        assert kernels.join(one, other) == legal
        place = {n: i for i, k in enumerate(kernels.all()) for n in k}
        for node in range(25):
            assert all(place[node] <= place[c] for c in dag.consumers[node])

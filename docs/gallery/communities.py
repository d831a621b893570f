"""Communities of a graph, from a few known members.

A graph network passes features along the edges, which are pairs of node numbers: what arrives at a node is a sum by
segment. Three members of each community are known (rings). The network says for all others where they belong.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import LineCollection

import pullback as pb
from pullback import nn

SIZE, KINDS, KNOWN = 30, 3, 3
random = np.random.default_rng(0)
kind = np.repeat(np.arange(KINDS), SIZE)
likely = np.where(kind[:, None] == kind, 0.2, 0.012)
pairs = np.argwhere(np.triu(random.random(likely.shape) < likely, 1))
edges = np.concatenate([pairs, pairs[:, ::-1]])
known = np.concatenate([random.choice(np.flatnonzero(kind == k), KNOWN, replace=False) for k in range(KINDS)])
nodes = np.zeros((len(kind), KINDS), np.float32)  # the network sees the kinds of half of the known ones
nodes[known, kind[known]] = 1

net = nn.models.graph_network(KINDS, hidden_size=16, num_layers=4)
net = net.on({"nodes": f"{len(kind)} {KINDS}", "edges": f"i64[{len(edges)}, 2]"})
optimizer = nn.adamw(0.01, weight_decay=0.1)


@pb.function
def step(p, state, count, seen, asked):
    def loss(p):
        answers = net(p, {"nodes": nodes * seen[:, None], "edges": edges})
        errors = pb.logsumexp(answers, axis=1) - pb.sum(answers * nodes, axis=1)
        return pb.sum(errors * asked) / pb.sum(asked)

    value, gradient = pb.value_and_grad(loss)(p)
    updates, state = optimizer.update(gradient, state, p, count)
    return value, optimizer.apply(p, updates), state


p = net.init(seed=0)[0]
state = optimizer.init(p)
for count in range(150):  # some known nodes are shown, and the others are asked for
    shown = np.zeros(len(kind), np.float32)
    shown[[random.choice(known[k * KNOWN : (k + 1) * KNOWN]) for k in range(KINDS)]] = 1
    asked = np.zeros_like(shown)
    asked[known] = 1 - shown[known]
    value, p, state = step(p, state, count, shown, asked)
answers = net(p, {"nodes": nodes, "edges": edges}).argmax(1)
accuracy = np.mean(np.delete(answers == kind, known))
assert accuracy > 0.85

place = np.stack([np.cos(2 * np.pi * kind / KINDS), np.sin(2 * np.pi * kind / KINDS)], 1)
place += 0.35 * random.normal(size=place.shape)
plt.gca().add_collection(LineCollection(place[pairs], colors="0.85", linewidths=0.6, zorder=0))
plt.scatter(*place.T, c=plt.cm.tab10(answers), s=25)
plt.scatter(*place[known].T, s=90, facecolors="none", edgecolors="k")
plt.title(f"{accuracy:.0%} of the others found", fontsize=10)
plt.axis("off")

"""The models in PyTorch's functions, of parameters under Pullback's names."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from tests.unit.nn.torch_peers.peers import attention, recurrent

LRN = {"size": 5, "alpha": 5e-4, "beta": 0.75, "k": 2.0}  # torch divides alpha by the size


class Part:
    """Parameters of a part of a network; layers of a kind are numbered as they are asked for."""

    def __init__(self, tree: dict[str, Any]) -> None:
        self.tree = tree
        self.counts: dict[str, int] = {}

    def __getitem__(self, name: str) -> Part:
        return Part(self.tree[name])

    def next(self, kind: str) -> Any:
        self.counts[kind] = self.counts.get(kind, 0) + 1
        return self.tree[f"{kind}{self.counts[kind]}"]

    def conv(self, x: Any, **settings: Any) -> Any:
        p = self.next("conv")
        return functional.conv2d(x, p["w"], p.get("b"), **settings)

    def dense(self, x: Any) -> Any:
        p = self.next("dense")
        return functional.linear(x, p["w"], p.get("b"))

    def norm(self, x: Any) -> Any:
        p = self.next("batch_norm")
        return functional.batch_norm(x, None, None, p["scale"], p["shift"], training=True)

    def layer_norm(self, x: Any) -> Any:
        p = self.next("layer_norm")
        return functional.layer_norm(x, x.shape[-1:], p["scale"], p["shift"])


def lenet(p: Part, x: Any, *, tanh: bool = False) -> Any:
    act = torch.tanh if tanh else (lambda y: y)
    for _ in range(2):
        x = act(functional.max_pool2d(p.conv(x), 2))
    return p.dense((torch.tanh if tanh else torch.relu)(p.dense(x.flatten(1))))


def alexnet(p: Part, x: Any) -> Any:
    for settings in ({"stride": 4}, {"padding": 2, "groups": 2}):
        x = functional.local_response_norm(torch.relu(p.conv(x, **settings)), **LRN)
        x = functional.max_pool2d(x, 3, 2)
    x = torch.relu(p.conv(x, padding=1))
    for _ in range(2):
        x = torch.relu(p.conv(x, padding=1, groups=2))
    return classified(p, functional.max_pool2d(x, 3, 2))


def overfeat(p: Part, x: Any) -> Any:
    for k, settings in enumerate(({"stride": 4}, {}, *({"padding": 1},) * 3)):
        x = torch.relu(p.conv(x, **settings))
        x = functional.max_pool2d(x, 2) if k in (0, 1, 4) else x
    return classified(p, x)


def vgg(p: Part, x: Any, depths: tuple[int, ...]) -> Any:
    for depth in depths:
        for _ in range(depth):
            x = torch.relu(p.conv(x, padding=1))
        x = functional.max_pool2d(x, 2)
    return classified(p, x)


def classified(p: Part, x: Any) -> Any:
    return p.dense(torch.relu(p.dense(torch.relu(p.dense(x.flatten(1))))))


def googlenet(p: Part, x: Any) -> Any:
    def inception(q: Part, x: Any) -> Any:
        a, b, c, d = (q[f"sequential{k}"] for k in (1, 2, 3, 4))
        return torch.cat(
            [
                torch.relu(a.conv(x)),
                torch.relu(b.conv(torch.relu(b.conv(x)), padding=1)),
                torch.relu(c.conv(torch.relu(c.conv(x)), padding=2)),
                torch.relu(d.conv(functional.max_pool2d(x, 3, 1, 1))),
            ],
            1,
        )

    def auxiliary(q: Part, x: Any) -> Any:
        x = torch.relu(q.conv(functional.avg_pool2d(x, 5, 3)))
        return q.dense(torch.relu(q.dense(x.flatten(1))))

    def pool(x: Any) -> Any:
        return functional.max_pool2d(x, 3, 2, ceil_mode=True)

    first, second = p["stem1"], p["stem2"]
    x = functional.local_response_norm(pool(torch.relu(first.conv(x, stride=2, padding=3))), **LRN)
    x = torch.relu(second.conv(torch.relu(second.conv(x)), padding=1))
    x = pool(functional.local_response_norm(x, **LRN))
    others = []
    for name in ("3a", "3b", "4a", "4b", "4c", "4d", "4e", "5a", "5b"):
        x = inception(p[f"inception_{name}"], pool(x) if name in ("4a", "5a") else x)
        if name in ("4a", "4d"):
            others.append(auxiliary(p[f"auxiliary{len(others) + 1}"], x))
    return (p["classifier"].dense(x.mean((2, 3))), *others)


def resnet(p: Part, x: Any, depths: tuple[int, ...], *, bottleneck: bool) -> Any:
    x = functional.max_pool2d(torch.relu(p.norm(p.conv(x, stride=2, padding=3))), 3, 2, 1)
    for stage, depth in enumerate(depths):
        for k in range(depth):
            stride = 2 if stage and k == 0 else 1
            block = Part(p.next("residual"))
            body, y = block["body"], x
            steps = ((1, 0), (stride, 1), (1, 0)) if bottleneck else ((stride, 1), (1, 1))
            for at, (step, padding) in enumerate(steps):
                y = body.norm(body.conv(torch.relu(y) if at else y, stride=step, padding=padding))
            if "shortcut" in block.tree:
                own = block["shortcut"]
                x = own.norm(own.conv(x, stride=stride))
            x = torch.relu(x + y)
    return p.dense(x.mean((2, 3)))


def mobilenet(p: Part, x: Any) -> Any:
    def normed(q: Part, x: Any, **settings: Any) -> Any:
        return q.norm(q.conv(x, **settings))

    x = functional.relu6(normed(p, x, stride=2, padding=1))
    shape = ((1, 4, 1, 1), (6, 6, 2, 2), (6, 8, 3, 2), (6, 16, 4, 2), (6, 24, 3, 1), (6, 40, 3, 2), (6, 80, 1, 1))
    for factor, channels, depth, stride in shape:
        for k in range(depth):
            kept = k > 0 or (stride == 1 and x.shape[1] == channels)
            q = Part(p.next("residual"))["body"] if kept else p
            inside, y = x.shape[1] * factor, x
            if factor > 1:
                y = functional.relu6(normed(q, y))
            y = functional.relu6(normed(q, y, stride=1 if k else stride, padding=1, groups=inside))
            y = normed(q, y)
            x = x + y if kept else y
    x = functional.relu6(normed(p, x))
    return p.dense(x.mean((2, 3)))


def character_lstm(p: Part, x: Any) -> Any:
    x = functional.embedding(x, p.tree["embedding1"]["w"])
    own = p.tree["lstm1"]
    for k in (1, 2):
        x = recurrent(torch.nn.LSTM, own[f"lstm{k}"], x, 1, width=x.shape[2])[0]
    return p.dense(x)


def gpt(p: Part, x: Any) -> Any:
    x = functional.embedding(x, p.tree["embedding1"]["w"])
    x = x + p.tree["positional_encoding1"]["w"][: x.shape[1]]
    for k in (1, 2):
        block = p[f"transformer_block{k}"]
        look, think = block["look"]["body"], block["think"]["body"]
        x = x + attention(look.tree["attention1"], look.layer_norm(x), 4, 4, causal=True)
        x = x + think.dense(functional.gelu(think.dense(think.layer_norm(x))))
    return p.dense(p.layer_norm(x))


def autoencoder(p: Part, x: Any) -> Any:
    there, back = p["encoder"], p["decoder"]
    code = there.dense(torch.relu(there.dense(x.flatten(1))))
    return torch.sigmoid(back.dense(torch.relu(back.dense(code)))).reshape(x.shape)


PEERS: dict[str, Any] = {
    "lenet": lenet,
    "lenet_tanh": lambda p, x: lenet(p, x, tanh=True),
    "alexnet": alexnet,
    "overfeat": overfeat,
    "vgg11": lambda p, x: vgg(p, x, (1, 1, 2, 2, 2)),
    "vgg16": lambda p, x: vgg(p, x, (2, 2, 3, 3, 3)),
    "googlenet": googlenet,
    "resnet18": lambda p, x: resnet(p, x, (2, 2, 2, 2), bottleneck=False),
    "resnet50": lambda p, x: resnet(p, x, (3, 4, 6, 3), bottleneck=True),
    "mobilenet_v2": mobilenet,
    "character_lstm": character_lstm,
    "gpt": gpt,
    "autoencoder": autoencoder,
}

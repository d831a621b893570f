"""Networks of PyTorch as people export them: convolutions, recurrent layers, attention, norms, pools and indexing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        conv = [nn.Conv2d(8, 8, 3, padding=1) for _ in range(2)]
        self.body = nn.Sequential(conv[0], nn.BatchNorm2d(8), nn.ReLU(), conv[1], nn.BatchNorm2d(8))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x + self.body(x))


class Recurrent(nn.Module):
    def __init__(self, layer: nn.Module, width: int) -> None:
        super().__init__()
        self.layer, self.dense = layer, nn.Linear(width, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.dense(self.layer(x)[0])


class Upsampled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.slopes, self.up = nn.Conv2d(3, 4, 3, padding=1), nn.PReLU(4), nn.ConvTranspose2d(4, 2, 2, 2)

    def forward(self, x: Tensor) -> Tensor:
        y = F.interpolate(self.slopes(self.conv(x)), scale_factor=2, mode="bilinear", align_corners=False)
        return self.up(F.interpolate(y, scale_factor=0.5, mode="nearest"))


class Heads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        n, steps, width = x.shape
        q, k, v = self.inner(x).view(n, steps, 3, 4, 4).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(n, steps, width))


class Weights(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)

    def forward(self, x: Tensor) -> Any:
        return self.attention(x, x, x, need_weights=True)


def encoder(**more: Any) -> nn.Module:
    one = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, activation="gelu", **more)
    return nn.TransformerEncoder(one, 2, enable_nested_tensor=False)


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.places = nn.Embedding(50, 16), nn.Parameter(torch.randn(32, 16))
        self.encoder, self.out = encoder(), nn.Linear(16, 50)

    def forward(self, words: Tensor) -> Tensor:
        return self.out(self.encoder(self.table(words) + self.places[: words.shape[1]]))


class Viewed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.dense = nn.Conv2d(1, 4, 3), nn.Linear(4 * 36, 5)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.conv(x))
        return torch.log_softmax(self.dense(y.view(y.size(0), -1)), 1)


class Norms(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.Sequential(nn.GroupNorm(2, 4), nn.InstanceNorm2d(4, affine=True))
        self.conv, self.last = nn.Conv2d(4, 4, 3, 2, 2, 2, groups=2), nn.LayerNorm([4, 4, 4])

    def forward(self, x: Tensor) -> Tensor:
        return F.silu(self.last(self.conv(self.norms(x))))


class Pools(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        largest, mean = F.max_pool2d(x, 3, 2, 1, ceil_mode=True), F.avg_pool2d(x, 3, 2, 1, ceil_mode=True)
        whole = F.adaptive_avg_pool2d(x, 1)
        return torch.cat([largest, mean], 1) * F.hardswish(torch.cat([whole, whole], 1))


class Indexing(nn.Module):
    def forward(self, x: Tensor) -> Any:
        values, places = torch.topk(torch.cumsum(x, 1), 3, dim=1)
        m = torch.einsum("nc,nd->ncd", torch.where(x > 0, x, x.exp() - 1), torch.gather(x, 1, places))
        return m.amax(2), values, F.pad(m, (1, 1)), m.std(2)


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "LeNet": (lambda: nn.Sequential(nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(216, 9)),
              (1, 16, 16)),
    "ResNet": (lambda: nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), Residual(),
                                     Residual(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5)), (3, 12, 12)),
    "LSTM": (lambda: Recurrent(nn.LSTM(6, 8, batch_first=True), 8), (5, 6)),
    "GRU": (lambda: Recurrent(nn.GRU(6, 8, 2, bidirectional=True, batch_first=True), 16), (5, 6)),
    "transformer": (lambda: encoder(norm_first=True), (6, 16)),
    "words": (Words, (9,)),
    "heads": (Heads, (6, 16)),
    "attention with weights": (Weights, (5, 16)),
    "resampling, PReLU": (Upsampled, (3, 8, 8)),
    "view": (Viewed, (1, 8, 8)),
    "norms": (Norms, (4, 8, 8)),
    "pools": (Pools, (3, 8, 8)),
    "indexing": (Indexing, (6,)),
    "dense": (lambda: nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Dropout(0.5), nn.Linear(16, 4),
                                    nn.Softmax(-1)), (8,)),
    "one axis": (lambda: nn.Sequential(nn.Conv1d(4, 8, 3, padding=1), nn.ELU(), nn.AvgPool1d(2), nn.Flatten(),
                                       nn.Linear(32, 3), nn.Tanh()), (4, 8)),
    "three axes": (lambda: nn.Sequential(nn.Conv3d(1, 2, 2), nn.LeakyReLU(), nn.MaxPool3d(2), nn.Flatten(),
                                         nn.Linear(54, 3)), (1, 7, 7, 7)),
}  # fmt: skip

"""Words written backward: an encoder, a decoder that begins with its state and looks at its steps, and a mask.

python examples/reverse.py
"""

import numpy as np

import pullback as pb
from pullback import nn

LETTERS, LONGEST = 12, 8
START, END = LETTERS, LETTERS + 1  # tokens beside the letters; END also fills words up


def words(count: int, seed: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Random words of 2 to 8 letters: read, and as the decoder is given and asked for them."""
    random = np.random.default_rng(seed)
    lengths, t = random.integers(2, LONGEST + 1, count), np.arange(LONGEST)
    source = np.where(t < lengths[:, None], random.integers(0, LETTERS, (count, LONGEST)), END)
    backward = np.full((count, LONGEST + 1), END)
    for row, word, length in zip(backward, source, lengths):
        row[:length] = word[:length][::-1]
    before = np.concatenate([np.full((count, 1), START), backward[:, :-1]], axis=1)
    return {"source": source, "before": before}, backward


embedded = nn.embedding(LETTERS + 2, 16).named("embedded")
encoder = nn.with_states(nn.sequential(embedded, nn.positional_encoding(), nn.gru(32)))
decoder = nn.with_states(nn.sequential(embedded, nn.positional_encoding(), nn.gru(32)))


@nn.layer({"source": "i64[N, L]", "before": "i64[N, T]"})
def translate(scope, x):
    """Scores of the next token after each token of `before`: the decoder goes on from the state of the encoder."""
    read, states = scope.call(encoder, (x["source"], None), "encoder")
    written, _ = scope.call(decoder, (x["before"], states), "decoder")
    found = scope.call(nn.attention(4), {"query": written, "key": read, "mask": x["source"] != END}, "look")
    return scope.call(nn.dense(LETTERS + 2), pb.concat([written, found], axis=2), "scores")


net = translate().named("reverse").on({"source": f"N {LONGEST}", "before": f"N {LONGEST + 1}"})


def read_backward(parameters: dict, source: np.ndarray) -> np.ndarray:
    """The words that the network writes, each token the likeliest after those before it."""
    before = np.full((len(source), LONGEST + 1), START)
    for t in range(LONGEST + 1):
        likely = np.argmax(net(parameters, {"source": source, "before": before})[:, t], axis=-1)
        before[:, t + 1 : t + 2] = likely[:, None]
        last = likely
    return np.concatenate([before[:, 1:], last[:, None]], axis=1)


def main() -> float:
    run = nn.fit(
        net, nn.cross_entropy, words(3000, seed=0), optimizer=nn.clip_by_global_norm(1.0) >> nn.adam(5e-3), epochs=10,
        batch_size=64, validation_data=words(500, seed=1), metrics=[nn.metrics.accuracy], progress=False,
    )  # fmt: skip
    (given, wanted) = words(200, seed=2)
    written = read_backward(run.parameters, given["source"])
    share = float(np.mean((written == wanted).all(axis=1)))
    print(f"tokens {run.history['accuracy'][-1]:.3f}, whole words {share:.3f}, {run.seconds:.0f} s")
    for word, found in zip(given["source"][:3], written):
        print("".join(chr(97 + k) for k in word if k != END), "→", "".join(chr(97 + k) for k in found if k < LETTERS))
    return share


if __name__ == "__main__":
    main()

"""Train on a table of numbers and categories: columns by name, as in a DataFrame or a Parquet file.

In PyTorch: `torch.tensor(frame[columns].values)`.
In Keras: `StringLookup` and `Normalization`.
"""

import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from pullback import data, nn

random = np.random.default_rng(0)
table = {
    "area": random.uniform(20, 120, 300),
    "floor": random.integers(0, 5, 300),
    "city": random.choice(["Bern", "Rome"], 300),
}
table["price"] = 0.03 * table["area"] + 0.1 * table["floor"] + (table["city"] == "Bern")
columns = {"size": ["area", "floor"], "city": "city"}, ["price"]
cities = {"city": ["Bern", "Rome"]}
if find_spec("pandas"):
    from pandas import DataFrame

    table = DataFrame(table)
homes = data.from_table(table, *columns, categories=cities)
if find_spec("pyarrow"):
    import pyarrow
    from pyarrow import parquet

    with tempfile.TemporaryDirectory() as folder:
        parquet.write_table(
            pyarrow.table({name: table[name] for name in ("area", "floor", "city", "price")}),
            Path(folder) / "homes.parquet",
        )
        read = data.load_parquet(Path(folder) / "homes.parquet", *columns, categories=cities)
    assert np.array_equal(read.inputs["size"], homes.inputs["size"])

net = nn.sequential(nn.parallel(size=nn.dense(8) >> nn.relu, city=nn.embedding(2, 8)), nn.concat(), nn.dense(1))
train, test = homes.transformed(size=data.normalize(mean=[70, 2], std=[30, 1.5])).split(0.8, seed=0)
run = nn.fit(
    net.on({"size": "N 2", "city": "N"}), nn.mse_loss, train, validation_data=test, optimizer=nn.adam(0.02), epochs=40,
    progress=False,
)  # fmt: skip
assert run.history["validation_loss"][-1] < 0.02 * np.var(homes.targets)
print(homes, f"mean squared error {run.history['validation_loss'][-1]:.4f}", sep="\n")

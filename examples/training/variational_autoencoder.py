"""Train a variational autoencoder with random numbers in its forward pass, then make new images.

In PyTorch: `mean + torch.randn_like(std) * std`.
In Keras: the example "Variational AutoEncoder".
"""

import numpy as np

from pullback import data, nn

images = data.load_digits().train.inputs[:800, None, ::2, ::2]
net = nn.models.vae(4, hidden_size=64).on("N 1 14 14")
run = nn.fit(net, nn.models.elbo_loss, (images, images), optimizer=nn.adam(3e-3), epochs=12, progress=False)
assert run.history.losses[-1] < 0.75 * run.history.losses[0]

decoder = nn.models.vae_decoder((1, 14, 14), hidden_size=64).on("N 4")
points = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
made = 1 / (1 + np.exp(-decoder(run.parameters["decoder"], points)))
assert made.shape == (50, 1, 14, 14)
nearest = ((made[:, None] - images[None]) ** 2).mean(axis=(2, 3, 4)).min(axis=1)
assert nearest.mean() < 0.5 * ((images[:50, None] - images.mean(axis=0)) ** 2).mean()  # they look like digits
print(f"loss {run.history.losses[0]:.0f} to {run.history.losses[-1]:.0f}, distance to digits {nearest.mean():.3f}")

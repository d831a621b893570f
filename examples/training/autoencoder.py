"""Compress images with an autoencoder, and find an image that does not belong by its reconstruction.

In PyTorch: an encoder and a decoder module.
In Keras: "Building autoencoders in Keras".
"""

import numpy as np

from pullback import data, nn

digits = data.load_digits()
images = digits.train.inputs[:, None, ::2, ::2]  # 14 × 14
encoder = nn.sequential(nn.flatten(), nn.dense(64), nn.relu, nn.dense(12)).named("encoder")
decoder = nn.sequential(nn.dense(64), nn.relu, nn.dense(196), nn.sigmoid, nn.reshape(1, 14, 14)).named("decoder")
net = nn.sequential(encoder, decoder).on("N 1 14 14")
run = nn.fit(net, nn.mse_loss, (images, images), optimizer=nn.adam(3e-3), epochs=15, progress=False)

code = encoder.on("N 1 14 14")(run.parameters["encoder"], images[:5])
assert code.shape == (5, 12)  # 196 numbers in 12
test = digits.test.inputs[:, None, ::2, ::2]
errors = ((net(run.parameters, test) - test) ** 2).mean(axis=(1, 2, 3))
stranger = np.random.default_rng(0).random((1, 1, 14, 14), np.float32)
error = ((net(run.parameters, stranger) - stranger) ** 2).mean()
assert errors.mean() < 0.4 * np.var(test)
assert error > np.quantile(errors, 0.99)
print(f"error of test digits {errors.mean():.4f}, of noise {error:.4f}")

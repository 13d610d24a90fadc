# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A belief that one should not trust, and how one finds out
#
# A shop has a discount button. For two months its sales staff pressed it when they thought it would
# help. Should everybody get the discount, nobody, or only new customers? A sale earns 10, a
# discounted sale 7, no sale nothing.
#
# We make the shop ourselves, so we know what is true. We then fit three beliefs with clear numbers.
# All three are wrong, each in another way. For each there is a question that finds it out.

# %%
import jax
import numpy as np
import polars as pl

import bayesdice_ppl as bd

SEGMENTS, OFFERS = ["new", "returning"], ["full price", "discount"]
SHARE = np.array([0.6, 0.4])  # of the segments
EAGER = np.array([0.3, 0.5])  # share of each segment that came to buy
BUYS = np.array([[0.10, 0.18], [0.60, 0.66]])  # not eager, eager: at full price, with a discount
EARNS = np.array([10.0, 7.0])
PRESSED = np.array([0.2, 0.8])  # staff discount for the eager: they can see who came to buy


def play(n, rng):
    """Two months in the shop."""
    segment = rng.choice(2, n, p=SHARE)
    eager = (rng.random(n) < EAGER[segment]).astype(int)
    discount = (rng.random(n) < PRESSED[eager]).astype(int)
    bought = rng.random(n) < BUYS[eager, discount]
    return pl.DataFrame(
        {
            "segment": np.array(SEGMENTS)[segment],
            "eager": np.array(["no", "yes"])[eager],
            "offer": np.array(OFFERS)[discount],
            "probability": np.where(discount == 1, PRESSED[eager], 1 - PRESSED[eager]),
            "earned": np.where(bought, EARNS[discount], 0.0),
        }
    )


table = play(6000, np.random.default_rng(1))
rules = {
    "everybody": dict.fromkeys(SEGMENTS, "discount"),
    "new only": {"new": "discount", "returning": "full price"},
    "nobody": dict.fromkeys(SEGMENTS, "full price"),
}

# %% [markdown]
# The true values are a sum over segments and over eager and other customers.

# %%
truth = {}
for name, rule in rules.items():
    value = 0.0
    for s, segment in enumerate(SEGMENTS):
        a = OFFERS.index(rule[segment])
        buys = (1 - EAGER[s]) * BUYS[0, a] + EAGER[s] * BUYS[1, a]
        value += SHARE[s] * buys * EARNS[a]
    truth[name] = float(value)
truth

# %% [markdown]
# ## First belief: the log as the analyst got it
#
# The analyst got segment, offer and earnings. Nobody kept what the staff saw.

# %%
columns = {"state": "segment", "action": "offer", "reward": "earned"}
seen = bd.Logs.from_dataframe(table.select("segment", "offer", "earned"), columns=columns)
first = bd.fit(seen, rules, gamma=0.0, rng_key=jax.random.key(0))
print(bd.select(first, bd.scores.regret(k=1)).answer)
for verdict in bd.diagnose(first, seen, rules).verdicts:
    print(verdict)

# %% [markdown]
# Six thousand rows, narrow intervals, a clear choice, three times "good". Here is the truth.

# %%
bd.plots.forest(first, truth=truth)


# %%
def sds_off(belief):
    """How far the belief's mean is from the truth, in its own sds."""
    value = belief["posterior/value"].squeeze("chain")
    return {
        name: round(float((value.sel(policy=name).mean() - true) / value.sel(policy=name).std()), 1)
        for name, true in truth.items()
    }


off = sds_off(first)
print(off)
assert off["everybody"] > 5
assert off["nobody"] < -5
assert max(truth, key=truth.get) == "nobody"
assert bd.select(first, bd.scores.regret(k=1)).launch[0] == "everybody"

# %% [markdown]
# The belief recommends what is truly worst, and is sure of it. It does not lie about the log:
# customers with a discount did buy more. But the staff gave the discount to those who had come to
# buy. No number that is made of these three columns can show it. More rows make it worse: the
# intervals shrink around the wrong values.
#
# **What finds it out: the probabilities with which the offers were made.** The shop's system had
# them. If they vary within a segment, and sales vary with them, then whoever made the offers saw
# something that the log does not hold.

# %%
with_propensity = bd.Logs.from_dataframe(
    table.select("segment", "offer", "earned", "probability"),
    columns=columns | {"propensity": "probability"},
)
warned = bd.fit(with_propensity, rules, gamma=0.0, rng_key=jax.random.key(0))
diagnosis = bd.diagnose(warned, with_propensity, rules)
for verdict in diagnosis.verdicts:
    print(verdict)
print(bd.select(warned, bd.scores.regret(k=1)).answer)

# %% [markdown]
# The values are the same, and so is the order. The recommendation is gone, and the reason says what
# to do: put what the staff saw into the state. Somebody did write it down after all.

# %%
whole = bd.Logs.from_dataframe(
    table.with_columns(customer=pl.col("segment") + ", eager: " + pl.col("eager")).drop(
        "segment", "eager"
    ),
    columns=columns | {"state": "customer", "propensity": "probability"},
)
by_customer = {
    name: {f"{s}, eager: {e}": offer for s, offer in rule.items() for e in ("no", "yes")}
    for name, rule in rules.items()
}
mended = bd.fit(whole, by_customer, gamma=0.0, rng_key=jax.random.key(0))
print(bd.diagnose(mended, whole, by_customer).verdicts[0])
print("In sds:", sds_off(mended))
bd.plots.forest(mended, truth=truth)

# %%
assert max(map(abs, sds_off(mended).values())) < 4
assert bd.select(mended, bd.scores.regret(k=1)).launch[0] == "nobody"

# %% [markdown]
# ## Second belief: an offer that was hardly ever made
#
# Now somebody proposes free delivery for returning customers. It was tried five times, in one
# evening. All five bought.

# %%
evening = pl.DataFrame(
    {
        "customer": ["returning, eager: yes"] * 5,
        "offer": ["free delivery"] * 5,
        "earned": [8.0] * 5,
    }
)
offers = whole.to_dataframe().select(customer="state", offer="action", earned="reward")
tried = bd.Logs.from_dataframe(
    pl.concat([offers, evening]), columns=columns | {"state": "customer"}
)
proposals = by_customer | {
    "free delivery": {
        customer: "free delivery" if customer.startswith("returning") else "full price"
        for customer in by_customer["nobody"]
    }
}
second = bd.fit(tried, proposals, gamma=0.0, rng_key=jax.random.key(0))
for verdict in bd.diagnose(second, tried, proposals).verdicts:
    print(verdict)

# %% [markdown]
# **What finds it out: the support.** Half of the returning customers were never offered free
# delivery, and the others five times. Its mean is the best of all. But its share of steps of which
# the log says nothing is a cross past the dashed line, its belief is wide, and the verdict is "do
# not use".

# %%
bd.plots.support(second)

# %%
bd.plots.ridge(second)

# %%
assert bd.diagnose(second, tried, proposals).verdict("free delivery").word == "do not use"

# %% [markdown]
# ## Third belief: a setting that somebody liked
#
# The third mistake is in no log. It is in the settings. "Let us regularize," says a colleague, and
# sets the prior sd of the ratio to 0.1, where the default has 10. So every rule is taken to be
# close to what the staff did.

# %%
part = bd.Logs.from_dataframe(whole.to_dataframe().head(1000))
narrow = bd.Prior(ratio_sd=0.1)
third = bd.fit(part, by_customer, gamma=0.0, rng_key=jax.random.key(0), prior=narrow)
for verdict in bd.diagnose(third, part, by_customer).verdicts:
    print(verdict)
bd.plots.forest(third, truth=truth)

# %% [markdown]
# The verdict says it: no ratio that this prior allows fits the log. **How far off such a belief is,
# logs like this one say, whose values are known.** `calibrate` plays them from the log's own table,
# fits each, and counts how often 90 % intervals held the truth.

# %%
records = {
    name: bd.calibrate(
        part, by_customer, gamma=0.0, rng_key=jax.random.key(1), trials=60, prior=prior
    )
    for name, prior in (("narrow", narrow), ("default", None))
}
print("Narrow prior:", records["narrow"].answer)
print()
print("Default:", records["default"].answer)
assert not records["narrow"].covers
assert records["default"].covers

# %%
bd.plots.coverage(records["narrow"])

# %%
bd.plots.coverage(records["default"])

# %% [markdown]
# ## What to do differently
#
# * A "good" verdict is about what the log can show. Ask who chose the actions, and what they saw.
#   **Log the probabilities.** They are what lets a belief find out.
# * Look at the support before you look at the ranking.
# * Calibrate the procedure once on logs like yours, before anybody asks which candidate won.
# * `calibrate` would not have found the first mistake: it simulates the log as the belief takes it
#   to be. No check finds everything.

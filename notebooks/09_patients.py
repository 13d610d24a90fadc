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
# # Eighty patients, or sixteen hundred visits?
#
# A clinic treats high blood pressure. At each visit a patient's reading is fair or high, the doctor
# gives a low or a high dose, and a week later the pressure is in range or not. There are eighty
# patients with twenty visits each. The head of the clinic asks: should we move everybody to the
# high dose?
#
# Are that 1,600 facts or 80? Some patients do well whatever they take. So visits of one patient are
# alike, and doctors tend to keep a patient on the same dose. This notebook shows what that does to
# a belief, who notices, and what is to be logged.

# %%
import json

import arviz as az
import jax
import matplotlib.pyplot as plt
import numpy as np
import polars as pl

import bayesdice_ppl as bd

READINGS, DOSES = ["fair", "high"], ["low dose", "high dose"]
HIGH_READING = 0.4  # share of visits with a high reading
IN_RANGE = np.array([[0.60, 0.64], [0.35, 0.45]])  # by reading and dose, of the average patient
PATIENT_SD = 0.2  # how much patients differ


def play(patients, visits, seed):
    """A log of the clinic; the doctor's habit with a patient is drawn once."""
    rng = np.random.default_rng(seed)
    n = patients * visits
    patient = np.repeat(np.arange(patients), visits)
    constitution = rng.uniform(-1, 1, patients) * PATIENT_SD * np.sqrt(3)
    habit = rng.choice([0.1, 0.9], patients)
    reading = (rng.random(n) < HIGH_READING).astype(int)
    dose = (rng.random(n) < habit[patient]).astype(int)
    chance = np.clip(IN_RANGE[reading, dose] + constitution[patient], 0.0, 1.0)
    order = rng.permutation(n)  # visits are filed by day, and not by patient
    return pl.DataFrame(
        {
            "patient_id": patient,
            "reading": np.array(READINGS)[reading],
            "dose": np.array(DOSES)[dose],
            "in_range": (rng.random(n) < chance).astype(int),
        }
    )[order]


rules = {
    "low for all": dict.fromkeys(READINGS, "low dose"),
    "by reading": {"fair": "low dose", "high": "high dose"},
    "high for all": dict.fromkeys(READINGS, "high dose"),
}

# %% [markdown]
# The true values are for a new patient: an average over constitutions.

# %%
people = np.linspace(-1, 1, 20001) * PATIENT_SD * np.sqrt(3)
average = np.clip(IN_RANGE[..., None] + people, 0.0, 1.0).mean(axis=-1)
share = np.array([1 - HIGH_READING, HIGH_READING])
truth = {
    name: float(share @ average[[0, 1], [DOSES.index(rule[r]) for r in READINGS]])
    for name, rule in rules.items()
}
print({name: round(value, 3) for name, value in truth.items()})

# %% [markdown]
# ## Two beliefs from the same visits
#
# The first analyst got a table without the column `patient_id`. The second got all of it. Neither
# said anything of dependence to the program.

# %%
COLUMNS = {"state": "reading", "action": "dose", "reward": "in_range"}


def fit(table, **settings):
    """A belief from a table of visits; each visit is a decision of its own."""
    logs = bd.Logs.from_dataframe(table, columns=COLUMNS)
    return bd.fit(logs, rules, gamma=0.0, rng_key=jax.random.key(0), draws=1000, **settings)


visits = play(80, 20, seed=5)
visits.head()

# %%
without = fit(visits.drop("patient_id"))
with_patients = fit(visits)


def said_of_dependence(belief):
    """What the rows were found to share, and how much wider errors are for it."""
    shared = json.loads(belief.attrs["unit"])["names"] or "nothing"
    wider = belief["constant_data/error_inflation"].values
    return f"rows share {shared}; errors are wider by {np.round(wider, 2)}"


print("without patient_id:", said_of_dependence(without))
print("with patient_id:   ", said_of_dependence(with_patients))
assert (with_patients["constant_data/error_inflation"] > 1.2).all()

# %% [markdown]
# The second belief looked at every column that could be a unit. It found that visits of one patient
# move together, and made its errors as wide as they then are.

# %%
figure = az.plot_forest(
    {"without patient_id": without, "with patient_id": with_patients},
    var_names=["value"],
    labels=["policy"],
    combined=True,
    figure_kwargs={"figsize": (8, 3.5), "figsize_units": "inches"},
)
figure.add_legend("model", title="", loc="lower right", bbox_to_anchor=(1.15, 0.1))

# %%
for name, belief in (("without", without), ("with", with_patients)):
    print(f"{name} patient_id: {bd.select(belief, bd.scores.regret(k=1)).answer}")
    value = belief["posterior/value"].squeeze("chain")
    gain = value.sel(policy="high for all") - value.sel(policy="low for all")
    low, high = np.quantile(gain, [0.05, 0.95])
    print(
        f"   gain of the high dose: {low:+.3f} to {high:+.3f}, "
        f"P(gain > 0) = {float((gain > 0).mean()):.2f}"
    )
print(f"true gain: {truth['high for all'] - truth['low for all']:+.3f}")

# %% [markdown]
# ## Who is right?
#
# One log proves nothing. We play the clinic sixty times and count how often the 90 % intervals of
# the gain hold the true one.

# %%
true_gain = truth["high for all"] - truth["low for all"]


def record(tables, **settings):
    """The place of the true gain among the draws, log by log."""
    place = []
    for table in tables:
        value = fit(table, **settings)["posterior/value"].squeeze("chain")
        gain = value.sel(policy="high for all") - value.sel(policy="low for all")
        place.append(float((gain < true_gain).mean()))
    return np.array(place)


tables = [play(80, 20, seed) for seed in range(100, 160)]
places = {
    "without patient_id": record([table.drop("patient_id") for table in tables]),
    "with patient_id": record(tables),
}
covered = {name: np.mean((place > 0.05) & (place < 0.95)) for name, place in places.items()}
for name, share_held in covered.items():
    print(f"{name}: 90 % intervals of the gain held it in {share_held:.0%} of 60 logs")
assert covered["without patient_id"] < 0.85
assert covered["with patient_id"] > 0.75

# %%
levels = np.linspace(0.02, 0.98, 49)
for name, place in places.items():
    inside = np.abs(place[:, None] - 0.5) < levels / 2
    plt.plot(levels, inside.mean(axis=0), label=name)
plt.plot([0, 1], [0, 1], color="0.35", lw=1)
plt.gca().set(
    xlabel="level of the interval", ylabel="share that holds the true gain", aspect="equal"
)
plt.legend(frameon=False)
plt.show()

# %% [markdown]
# ## More visits, or more patients?
#
# The clinic can pay for twice as many rows. Of whom?

# %%
plans = {
    "more visits of 80 patients": [(80, 10), (80, 20), (80, 40), (80, 80)],
    "more patients, 20 visits each": [(40, 20), (80, 20), (160, 20), (320, 20)],
}
figure, panels = plt.subplots(1, 2, figsize=(9, 3.5), sharey=True, layout="constrained")
shrunk = {}
for panel, (title, plan) in zip(panels, plans.items(), strict=True):
    for name in ("with patient_id", "without patient_id"):
        widths = []
        for patients, n_visits in plan:
            drawn = []
            for seed in range(3):
                table = play(patients, n_visits, 1000 + seed)
                if name == "without patient_id":
                    table = table.drop("patient_id")
                value = fit(table)["posterior/value"].squeeze("chain")
                gain = value.sel(policy="high for all") - value.sel(policy="low for all")
                drawn.append(float(gain.std()))
            widths.append(np.mean(drawn))
        rows = [patients * n_visits for patients, n_visits in plan]
        panel.loglog(rows, widths, "o-", label=name)
        shrunk[title, name] = widths[0] / widths[-1]
    panel.set(title=title, xlabel="visits in the log", xticks=rows, xticklabels=rows)
    panel.set(yticks=[0.01, 0.02, 0.04, 0.08], yticklabels=["0.01", "0.02", "0.04", "0.08"])
    panel.minorticks_off()
panels[0].set_ylabel("sd of the gain (share in range)")
panels[0].legend(frameon=False)
plt.show()
for (title, name), ratio in shrunk.items():
    print(f"{title}, {name}: eight times as many rows, sd {ratio:.1f} times smaller")

# %% [markdown]
# Without the column a belief thinks that every visit counts alike. With it one sees that visits of
# the same patients soon add nothing. **New patients do.**

# %%
by_visits = shrunk["more visits of 80 patients", "with patient_id"]
by_patients = shrunk["more patients, 20 visits each", "with patient_id"]
assert by_visits < 1.8 < by_patients

# %% [markdown]
# ## Three hospitals
#
# Dependence can be coarser still. Say patients are alike, but three hospitals differ, by the
# nurses' way of measuring. Three numbers say next to nothing of how much hospitals differ. What
# does a belief say?

# %%
rng = np.random.default_rng(3)
hospital = rng.integers(0, 3, 80)
shift = np.array([-0.15, 0.0, 0.15])
site = hospital[visits["patient_id"].to_numpy()]
chance = np.clip(
    IN_RANGE[
        (visits["reading"] == "high").to_numpy().astype(int),
        (visits["dose"] == "high dose").to_numpy().astype(int),
    ]
    + shift[site],
    0,
    1,
)
multi = visits.with_columns(
    hospital=pl.Series(np.array(["A", "B", "C"])[site]),
    in_range=pl.Series((rng.random(len(site)) < chance).astype(int)),
).drop("patient_id")
found = bd.Logs.from_dataframe(multi, columns=COLUMNS)
shared = bd.fit(found, rules, gamma=0.0, rng_key=jax.random.key(0))
print(said_of_dependence(shared))
for verdict in bd.diagnose(shared, found, rules).verdicts:
    print(verdict)
bd.plots.forest(shared)

# %%
assert all(v.word == "do not use" for v in bd.diagnose(shared, found, rules).verdicts)

# %% [markdown]
# It found the hospitals, and refuses: sixteen hundred visits in three hospitals are three facts.

# %% [markdown]
# ## What to do differently
#
# * Keep the column that says whose row it is: `patient_id`, `user_id`, `site`. The program looks at
#   it by itself, and says what it found.
# * A belief from a table without it is too sure, and no check of that table shows it.
# * Ask for more patients, and not for more visits.
# * Where only three or four units exist, name them (`cluster="hospital"`): so few are not always
#   found. Expect to hear that they are not enough.

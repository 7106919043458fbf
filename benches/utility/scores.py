"""From records of fits to scores that compare: means over splits, shares of the achievable gain, the best peer of a table."""

import statistics
from collections import defaultdict

# names in the page, in order; an oracle's setting is the best on the test rows, which nobody has
OURS = ["dpopt", "dpopt-table", "dpopt-matrix", "dpopt-additive"]
PEERS = [
    "dp-ebm",
    "dp-ebm (oracle)",
    "opacus-linear",
    "opacus-linear (oracle)",
    "opacus-perceptron (oracle)",
    "diffprivlib",
]
NAMES = {
    "dpopt": "dpopt, command line",
    "dpopt-table": "dpopt, Python, tables",
    "dpopt-matrix": "dpopt, Python, matrix",
    "dpopt-additive": "dpopt, Python, additive",
    "dp-ebm": "DP-EBM, defaults",
    "dp-ebm (oracle)": "DP-EBM, oracle",
    "opacus-linear": "Opacus, linear, one setting",
    "opacus-linear (oracle)": "Opacus, linear, oracle",
    "opacus-perceptron (oracle)": "Opacus, perceptron, oracle",
    "diffprivlib": "diffprivlib",
}
# a model that is worse than this in shares counts as this bad in means, so that one R² of -30 does not say all
FLOOR = -0.5
# two classes with less between the baseline and the best model without privacy are compared by AUC
LEAST_ACCURACY = 0.03


class Scores:
    """`mean[tool, table, epsilon]`, for references `mean[tool, table, None]`."""

    def __init__(self, records):
        last = {}
        for r in records:
            if r["tool"] != "regret":
                last[r["tool"], r["table"], r["split"], r["epsilon"], r.get("setting"), r.get("run")] = r
        self.records = list(last.values())
        # a score says something only beside the baseline's
        self.tables = list(dict.fromkeys(r["table"] for r in self.records if r["tool"] == "baseline"))
        self.records = [r for r in self.records if r["table"] in self.tables]
        self.task = {r["table"]: r["task"] for r in self.records}
        self.epsilons = sorted({r["epsilon"] for r in self.records if r["epsilon"] is not None})
        self.splits = sorted({r["split"] for r in self.records})
        self.metric = {t: self.choose_metric(t) for t in self.tables}
        self.values, self.settings = defaultdict(dict), {}
        self.collect()
        self.mean = {key: statistics.mean(v.values()) for key, v in self.values.items()}

    def choose_metric(self, table):
        if self.task[table] == "regression":
            return "R²"
        if self.task[table] == "multiclass":
            return "accuracy"
        of = lambda tool: statistics.mean(
            [r["score"] for r in self.records if r["table"] == table and r["tool"] == tool and "score" in r] or [0]
        )
        return "accuracy" if max(of("trees"), of("linear")) - of("baseline") >= LEAST_ACCURACY else "AUC"

    def value(self, record):
        if self.metric[record["table"]] != "AUC":
            return record.get("score")
        return 0.5 if record["tool"] == "baseline" else record.get("auc")

    def collect(self):
        settings, drawn = defaultdict(lambda: defaultdict(dict)), defaultdict(list)
        for r in self.records:
            value = self.value(r)
            if value is None:
                continue
            key = r["tool"], r["table"], r["epsilon"]
            if "setting" in r:
                settings[key][r["setting"]][r["split"]] = value
                if not r["default"]:
                    continue
            drawn[key, r["split"]].append(value)
        for (key, split), values in drawn.items():
            self.values[key][split] = statistics.mean(values)
        for (tool, table, epsilon), by_setting in settings.items():
            best = max(by_setting, key=lambda s: statistics.mean(by_setting[s].values()))
            self.values[f"{tool} (oracle)", table, epsilon] = by_setting[best]
            self.settings[tool, table, epsilon] = best

    def baseline(self, table):
        return self.mean["baseline", table, None]

    def without_privacy(self, table):
        """The best of what knows no privacy."""
        found = [self.mean[t, table, None] for t in ("trees", "linear") if (t, table, None) in self.mean]
        return max(found) if found else None

    def share(self, tool, table, epsilon):
        """0: like the same answer for everybody; 1: like the best without privacy."""
        score, top, base = self.mean.get((tool, table, epsilon)), self.without_privacy(table), self.baseline(table)
        return None if score is None or top is None else (score - base) / (top - base)

    def bounded_share(self, tool, table, epsilon):
        share = self.share(tool, table, epsilon)
        return None if share is None else max(share, FLOOR)

    def error(self, tool, table, epsilon):
        """Standard error of the mean over splits, or None for one split."""
        values = list(self.values[tool, table, epsilon].values())
        return statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else None

    def best_peer(self, table, epsilon):
        """(name, mean): the best other private tool on this table's test rows, oracles among them."""
        found = [(p, self.mean[p, table, epsilon]) for p in PEERS if (p, table, epsilon) in self.mean]
        return max(found, key=lambda f: f[1]) if found else None

    def mean_share(self, tool, epsilon, tables=None):
        """(mean over tables that the tool has an answer to, those tables)."""
        shares = {t: self.bounded_share(tool, t, epsilon) for t in tables or self.tables}
        shares = {t: s for t, s in shares.items() if s is not None}
        return (statistics.mean(shares.values()), list(shares)) if shares else (None, [])

    def seconds(self, tool):
        """(median, most) of one fit."""
        found = [r["seconds"] for r in self.records if r["tool"] == tool.removesuffix(" (oracle)") and "score" in r]
        return (statistics.median(found), max(found)) if found else None

    def failures(self):
        return [r for r in self.records if "failed" in r]

#!/bin/sh
# Writes one file of every kind that the command line keeps, with what it printed about them, for tests that later versions read them:
#   make.sh DPOPT DIRECTORY
# DPOPT is the program of the version whose files are kept; the directory is named after its day.
set -eu
dpopt=$1
mkdir -p "$2"
cd "$2"
"$dpopt" generate census --rows 1500 --seed 1 -o census.csv
head -n 31 census.csv >rows.csv

fit() {
	name=$1
	shift
	"$dpopt" fit census.csv --bounds bounds.toml --delta 1e-6 -o "$name.json" "$@"
	"$dpopt" predict "$name.json" rows.csv -o "$name.predictions.csv"
	"$dpopt" verify "$name.json" --json >"$name.verified.json"
}
fit labels --target income --epsilon 1
fit sampled --target income --epsilon 1 --method noisy-sgd --steps 20
fit several --target occupation --epsilon 2
fit number --target age --epsilon 2 --report number.report.json
total="--ledger ledger.jsonl --total-epsilon 3 --total-delta 1e-4"
fit charged --target income --epsilon 0.5 $total
fit charged-again --target age --epsilon 0.25 $total
"$dpopt" ledger ledger.jsonl --json >ledger.shown.json
"$dpopt" account 'poisson(0.01, gaussian(1.1)) x 1000' --delta 1e-6 --json >account.json

rounds() { for i in $(seq 1 "$1"); do echo "[0.$((i % 10)), 0.$((i * 3 % 10)), 0.$((i * 7 % 10))]"; done; }
rounds 40 >rounds.txt
rounds 12 | "$dpopt" online experts --experts 3 --rounds 40 --epsilon 2 --delta 1e-4 --quiet --session game --guarantee game.json >game.plays
"$dpopt" mean census.csv --of age --moment 2:60 --epsilon 1 --delta 1e-6 -o mean.json
rm -f census.csv number.report.html

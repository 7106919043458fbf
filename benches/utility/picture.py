"""docs/images/utility.svg: a row for each table, a panel for each ε, a dot for each tool."""

from scores import NAMES, OURS, PEERS

# colour, and whether the dot is filled: tuned by an oracle means hollow
STYLE = {
    "dpopt": ("#c0392b", True),
    "dpopt-matrix": ("#e59866", True),
    "dp-ebm": ("#1f618d", True),
    "dp-ebm (oracle)": ("#1f618d", False),
    "opacus-linear": ("#229954", True),
    "opacus-linear (oracle)": ("#229954", False),
    "opacus-perceptron (oracle)": ("#7d3c98", False),
    "diffprivlib": ("#95a5a6", True),
}
ROW, GAP, LEFT, BOTTOM = 19, 22, 150, 46
WIDTH = 1150
LOW, HIGH = -0.1, 1.1


def draw(scores):
    tables = sorted(
        (t for t in scores.tables if scores.without_privacy(t) is not None),
        key=lambda t: ({"regression": 0, "binary": 1, "multiclass": 2}[scores.task[t]], t.startswith("g-"), t),
    )
    panels = len(scores.epsilons)
    across = (WIDTH - LEFT - 10) / panels - GAP
    names, rows = legend()
    top = 20 * rows + 50
    bottom = top + len(tables) * ROW
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + BOTTOM}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{bottom + BOTTOM}" fill="white"/>',
        *names,
    ]
    for i, table in enumerate(tables):
        y = top + i * ROW
        if i % 2 == 0:
            out.append(f'<rect x="0" y="{y}" width="{WIDTH}" height="{ROW}" fill="#f6f6f6"/>')
        if i and scores.task[table] != scores.task[tables[i - 1]]:
            out.append(f'<line x1="0" x2="{WIDTH}" y1="{y}" y2="{y}" stroke="#888"/>')
        out.append(f'<text x="{LEFT - 8}" y="{y + 13.5}" text-anchor="end">{table}</text>')
    for p, epsilon in enumerate(scores.epsilons):
        out += panel(scores, tables, epsilon, LEFT + p * (across + GAP), across, top)
    out.append(
        f'<text x="{(LEFT + WIDTH) / 2}" y="{bottom + 28}" text-anchor="middle">share of what the best model without '
        "privacy gains over the same answer for everybody (arrows: further left; dots at the right edge: further right)</text>"
    )
    return "\n".join([*out, "</svg>", ""])


def legend():
    """(what is drawn, lines of it)."""
    x, y, out = 12, 20, []
    for tool, (colour, filled) in STYLE.items():
        if x + 30 + 6.4 * len(NAMES[tool]) > WIDTH:
            x, y = 12, y + 20
        out.append(dot(x + 6, y - 4, colour, filled))
        out.append(f'<text x="{x + 16}" y="{y}">{NAMES[tool]}</text>')
        x += 34 + 6.4 * len(NAMES[tool])
    return out, y // 20


def dot(x, y, colour, filled, radius=4.2):
    fill = f'fill="{colour}" fill-opacity="0.85"' if filled else 'fill="white" fill-opacity="0"'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" {fill} stroke="{colour}" stroke-width="1.5"/>'


def panel(scores, tables, epsilon, left, across, top):
    at = lambda share: left + (share - LOW) / (HIGH - LOW) * across
    bottom = top + len(tables) * ROW
    out = [f'<text x="{at(0.5):.1f}" y="{top - 22}" text-anchor="middle" font-weight="bold">ε = {epsilon:g}</text>']
    for share in (0, 0.5, 1):
        out.append(
            f'<line x1="{at(share):.1f}" x2="{at(share):.1f}" y1="{top}" y2="{bottom}" stroke="#bbb" '
            f'stroke-dasharray="{"none" if share != 0.5 else "3 3"}"/>'
            f'<text x="{at(share):.1f}" y="{top - 6}" text-anchor="middle" fill="#555">{share:g}</text>'
        )
    for i, table in enumerate(tables):
        y = top + i * ROW + ROW / 2
        # ours last, so that it lies on top
        for tool in [*PEERS, *reversed(OURS)]:
            share = scores.share(tool, table, epsilon)
            if tool not in STYLE or share is None:
                continue
            colour, filled = STYLE[tool]
            if share < LOW:
                x = at(LOW) - 3
                out.append(f'<path d="M{x:.1f},{y:.1f} l7,-4 v8 z" fill="{colour}" fill-opacity="0.6"/>')
            else:
                out.append(dot(at(min(share, HIGH)), y, colour, filled))
    return out

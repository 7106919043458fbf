"""docs/sparse.svg from the counts that `make bench-sparse` prints: `python picture.py 4940 8610 10960 12570`.

Arguments: draws per step of the same records at any d, and of Zipf's law over 1e5, 1e6, 1e7 features.
"""

import math
import pathlib
import sys

same, *zipf = map(float, sys.argv[1:])
W, H, L, B, R, T = 720, 360, 80, 60, 190, 24
x = lambda d: L + (math.log10(d) - 4) / 3 * (W - L - R)
y = lambda n: H - B - (math.log10(n) - 3) / 4.2 * (H - B - T)
dims, labels = [1e4, 1e5, 1e6, 1e7], ["10⁴", "10⁵", "10⁶", "10⁷"]
out = [
    f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {W} {H}" font-family="sans-serif" font-size="14">',
    f'<rect width="{W}" height="{H}" fill="white"/>',
]
for power, label in zip(range(3, 8), ["10³", "10⁴", "10⁵", "10⁶", "10⁷"]):
    at = y(10**power)
    out.append(
        f'<line x1="{L}" x2="{W - R}" y1="{at:.1f}" y2="{at:.1f}" stroke="#ddd"/>'
        f'<text x="{L - 10}" y="{at + 5:.1f}" text-anchor="end" fill="#555">{label}</text>'
    )
for d, label in zip(dims, labels):
    out.append(f'<text x="{x(d):.1f}" y="{H - B + 24}" text-anchor="middle" fill="#555">{label}</text>')
out.append(f'<text x="{(L + W - R) / 2}" y="{H - 12}" text-anchor="middle">features d</text>')
out.append(
    f'<text transform="translate(24,{(H - B + T) / 2}) rotate(-90)" text-anchor="middle">noise draws per step</text>'
)


def line(points, color, name):
    path = " ".join(f"{x(d):.1f},{y(n):.1f}" for d, n in points)
    out.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2.5"/>')
    out.extend(f'<circle cx="{x(d):.1f}" cy="{y(n):.1f}" r="4" fill="{color}"/>' for d, n in points)
    d, n = points[-1]
    out.append(f'<text x="{x(d) + 12:.1f}" y="{y(n) + 5:.1f}" fill="{color}">{name}</text>')


line([(d, d) for d in dims], "#b33", "noise at every step")
line(list(zip(dims[1:], zipf)), "#27a", "lazy, features grow")
line([(1e4, same), (1e7, same)], "#186", "lazy, same records")
out.append("</svg>")
path = pathlib.Path(__file__).resolve().parents[2] / "docs" / "sparse.svg"
path.write_text("\n".join(out) + "\n")

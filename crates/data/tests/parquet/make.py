"""Makes the Parquet files of this folder, and cells.json with what stands in them: python make.py, with pyarrow, pandas and polars.

Cells are written as the reader shows them: null, a truth value, a whole number, {"f": number}, {"t": text}, {"x": bytes in hex} or {"at": ticks};
a column of times has its ticks per day and its unit beside. The numbers come from the Python values, not from reading the files back.
"""

import base64
import datetime as dt
import decimal
import json
import math
import pathlib

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

HERE = pathlib.Path(__file__).parent
DAY = 86_400
PER = {"s": DAY, "ms": DAY * 10**3, "us": DAY * 10**6, "ns": DAY * 10**9}
EPOCH = dt.datetime(1970, 1, 1)
D = decimal.Decimal
decimal.getcontext().prec = 80
cells = {}


def number(value):
    return {"f": repr(float(value))}


def text(value):
    return {"t": value.strip(" \t\n\r\x0c")}


def numbers(values):
    return [None if v is None else number(v) for v in values]


def times(per_day, unit, ticks):
    return {"per_day": per_day, "unit": unit, "cells": [None if t is None else {"at": t} for t in ticks]}


def plain(values):
    return {"cells": list(values)}


def table_of_every_type():
    """Columns by name: Arrow's array, and its cells."""
    columns = {}

    def add(name, array, expected):
        assert len(array) == len(expected["cells"]) == 7, name
        columns[name] = (array, expected)

    for bits in (8, 16, 32, 64):
        low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        values = [low, high, 0, None, -1, 7, None]
        add(f"int{bits}", pa.array(values, getattr(pa, f"int{bits}")()), plain(values))
        values = [0, 2**bits - 1, 1, None, 2 ** (bits - 1), 7, None]
        expected = plain(values) if bits < 64 else plain(numbers(values))
        add(f"uint{bits}", pa.array(values, getattr(pa, f"uint{bits}")()), expected)
    halves = [1.0, -0.333251953125, 65504.0, None, 2.0**-24, math.inf, -0.0]
    add(
        "float16",
        pa.array([None if v is None else np.float16(v) for v in halves], pa.float16()),
        plain(numbers(halves)),
    )
    singles = [None if v is None else float(np.float32(v)) for v in [0.1, -1e30, 1e-40, None, math.inf, -0.0, 3.0]]
    add("float", pa.array(singles, pa.float32()), plain(numbers(singles)))
    doubles = [0.1, -1e300, 5e-324, None, -math.inf, -0.0, 1 / 3]
    add("double", pa.array(doubles, pa.float64()), plain(numbers(doubles)))
    truths = [True, False, None, True, True, False, None]
    add("bool", pa.array(truths), plain(truths))
    words = [" Rome ", "", None, "Zürich", "Rome", "\tx y\n", "-"]
    shown = plain([None if w is None else text(w) for w in words])
    for name, of in {"text": pa.string(), "long text": pa.large_string()}.items():
        add(name, pa.array(words, of), shown)
    add("dictionary", pa.array(words).dictionary_encode(), shown)
    raw = [b"abc", b" \xff ", None, b"\x00\x01", b"", b"abc", b"z"]
    hexed = plain([None if b is None else {"x": b.strip(b" \t\n\r\x0c").hex()} for b in raw])
    for name, of in {"bytes": pa.binary(), "byte view": pa.binary_view()}.items():
        add(name, pa.array(raw, of), hexed)
    fixed = [b"abc", b" \xff ", None, b"\x00\x01\x02", b"   ", b"abc", b"xyz"]
    shown = plain([None if b is None else {"x": b.strip(b" \t\n\r\x0c").hex()} for b in fixed])
    add("bytes of one length", pa.array(fixed, pa.binary(3)), shown)
    add("null", pa.nulls(7), plain([None] * 7))

    for precision, scale in [(4, 1), (9, 2), (18, 4), (20, 10), (38, 3)]:
        top = D(10**precision - 1).scaleb(-scale)
        values = [
            top,
            -top,
            D(125).scaleb(-scale),
            None,
            D(0),
            D(-1).scaleb(-scale),
            D(10 ** (precision - 1) + 1).scaleb(-scale),
        ]
        add(f"decimal {precision} {scale}", pa.array(values, pa.decimal128(precision, scale)), plain(numbers(values)))
    top = D(10**60 - 1).scaleb(-3)
    values = [top, -top, D("0.125"), None, D(0), D("-0.001"), D(2**127).scaleb(-3)]
    add("decimal 60 3", pa.array(values, pa.decimal256(60, 3)), plain(numbers(values)))
    small = [D("1.25"), D("-1.25"), None, D("999.99"), D("0"), D("0.01"), D("0.1")]
    add("decimal32", pa.array(small, pa.decimal32(5, 2)), plain(numbers(small)))
    add("decimal64", pa.array(small, pa.decimal64(12, 2)), plain(numbers(small)))

    days = [-1, 0, 19_000, None, 1, -25_000, 2**20]
    add("date32", pa.array(days, pa.date32()), times(1, "date", days))
    millis = [None if d is None else d * PER["ms"] for d in days]
    add("date64", pa.array(millis, pa.date64()), times(PER["ms"], "date", millis))
    ticks = [-5, 0, 5, None, 1_600_000_000, -1, 1]
    for unit in PER:
        # Parquet has no seconds: they are stored as milliseconds
        stored, factor = ("ms", 1000) if unit == "s" else (unit, 1)
        shown = times(PER[stored], "date", [None if t is None else t * factor for t in ticks])
        add(f"timestamp {unit}", pa.array(ticks, pa.timestamp(unit)), shown)
        if unit == "us":
            add("timestamp us zone", pa.array(ticks, pa.timestamp(unit, "Europe/Zurich")), shown)
        add(f"duration {unit}", pa.array(ticks, pa.duration(unit)), times(PER[unit], "duration", ticks))
        clock = [0, 5, PER[unit] - 1, None, 1, 2, 3]
        of = pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
        shown = times(PER[stored], "duration", [None if t is None else t * factor for t in clock])
        add(f"time {unit}", pa.array(clock, of), shown)
    return columns


def write(name, columns, **how):
    arrays = {column: array for column, (array, _) in columns.items()}
    pq.write_table(pa.table(arrays), HERE / name, **how)
    cells[name] = {column: expected for column, (_, expected) in columns.items()}


def every_type():
    columns = table_of_every_type()
    write("types.parquet", columns, compression="zstd", write_statistics=False)
    # without what Arrow knows: durations are whole numbers, dates are in days
    other = {k: v for k, v in columns.items() if k.startswith(("duration", "date"))}
    write("types_without_arrow.parquet", other, store_schema=False, compression="zstd", write_statistics=False)
    for name, expected in cells["types_without_arrow.parquet"].items():
        ticks = [cell and cell["at"] for cell in expected["cells"]]
        if name.startswith("duration"):
            cells["types_without_arrow.parquet"][name] = plain(ticks)
        if name == "date64":
            days = [None if t is None else t // PER["ms"] for t in ticks]
            cells["types_without_arrow.parquet"][name] = times(1, "date", days)
    # decimals as whole numbers; format version 1 has converted types only, and no nanoseconds
    decimals = {k: v for k, v in columns.items() if k.startswith("decimal ")}
    write("decimals.parquet", decimals, store_decimal_as_integer=True, compression="zstd", write_statistics=False)
    old = {k: v for k, v in columns.items() if k.startswith(("uint", "time")) and not k.startswith("timestamp ns")}
    write("version_1.parquet", old, version="1.0", compression="zstd", write_statistics=False)
    for name, expected in cells["version_1.parquet"].items():
        ticks = [cell and cell.get("at") if isinstance(cell, dict) else cell for cell in expected["cells"]]
        if name == "uint32":
            # version 1 writes them with 64 bits
            cells["version_1.parquet"][name] = plain(ticks)


def int96():
    micros = [-5, 0, 1_600_000_000_123_456, None, 86_400_000_000, -86_400_000_001, 7]
    for unit in ("ns", "us"):
        factor = 1000 if unit == "ns" else 1
        ticks = [None if t is None else t * factor for t in micros]
        columns = {"x": (pa.array(ticks, pa.timestamp(unit)), times(PER[unit], "date", ticks))}
        write(f"int96_{unit}.parquet", columns, use_deprecated_int96_timestamps=True, compression="none")


def arrow_types_on_plain_numbers():
    """Columns of plain numbers that Arrow's schema calls times, as other writers than pyarrow store seconds."""
    fields = [
        ("whole", pa.int64(), None, None),
        ("span s", pa.duration("s"), DAY, "duration"),
        ("span ns", pa.duration("ns"), PER["ns"], "duration"),
        ("day", pa.date32(), None, None),
        ("day ms", pa.date64(), PER["ms"], "date"),
        ("clock s", pa.time32("s"), DAY, "duration"),
        ("point s", pa.timestamp("s"), DAY, "date"),
        ("point µs", pa.timestamp("us", "UTC"), PER["us"], "date"),
        ("kept", pa.dictionary(pa.int8(), pa.duration("ms")), PER["ms"], "duration"),
    ]
    schema = pa.schema([pa.field(name, of) for name, of, _, _ in fields], {"about": "nothing"})
    encoded = base64.b64encode(schema.serialize().to_pybytes()).decode()
    (HERE / "arrow_schema.txt").write_text(encoded + "\n")
    ticks = [-5, 0, None, 86_399, 5]
    arrays, expected = {}, {}
    for name, _, per_day, unit in fields:
        arrays[name] = pa.array(ticks, pa.int32() if name == "clock s" else pa.int64())
        expected[name] = plain(ticks) if per_day is None else times(per_day, unit, ticks)
    table = pa.table(arrays)
    how = {"store_schema": False, "compression": "none", "write_statistics": False}
    with pq.ParquetWriter(HERE / "arrow_types.parquet", table.schema, **how) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({"ARROW:schema": encoded})
    cells["arrow_types.parquet"] = expected


def lists():
    """Sparse vectors: what each row's cell is, or what is wrong with it."""
    indices = [[0, 8], None, [], [9], [1], [1], [None], [3], [2, 4, 6]]
    values = [[1.0, -2.0], None, [], [1.0], [1.0, 2.0], [math.inf], [1.0], [None], [0.5, 0.25, 3.0]]
    index = "an index is not a whole number below the declared number of features"
    lengths = "`indices` and `values` differ in length"
    number = "a value is not a finite number"
    good = lambda i: {"v": [[j, v] for j, v in zip(indices[i] or [], values[i] or [])]}
    shown = [
        good(0),
        good(1),
        good(2),
        {"bad": index},
        {"bad": lengths},
        {"bad": number},
        {"bad": index},
        {"bad": number},
        good(8),
    ]
    names = {"indices": pa.list_(pa.uint32()), "values": pa.list_(pa.float32())}
    large = {"indices": pa.large_list(pa.int16()), "values": pa.large_list(pa.float64())}
    for name, types, how in [
        ("lists.parquet", names, {"compression": "snappy", "row_group_size": 4}),
        ("lists_v2.parquet", large, {"compression": "zstd", "data_page_version": "2.0", "use_dictionary": False}),
        ("lists_item.parquet", names, {"compression": "none", "use_compliant_nested_type": False}),
    ]:
        arrays = {"indices": pa.array(indices, types["indices"]), "values": pa.array(values, types["values"])}
        pq.write_table(pa.table(arrays), HERE / name, write_statistics=False, **how)
        cells[name] = {"features": plain(shown)}
    # rows and their items over many pages and row groups
    long = [[(i + j) % 30 for j in range([0, 0, 3, 0, 0, 0, 1, 0][i % 8])] for i in range(2300)]
    of = [[float(j) for j in row] for row in long]
    table = pa.table({"indices": pa.array(long, names["indices"]), "values": pa.array(of, names["values"])})
    how = {
        "data_page_size": 512,
        "write_batch_size": 200,
        "row_group_size": 1300,
        "compression": "zstd",
        "write_statistics": False,
    }
    pq.write_table(table, HERE / "lists_long.parquet", **how)


def matrix():
    """One small table in every form of pages."""
    rows = 40
    whole = [None if i % 7 == 3 else i * 1000 - 5 for i in range(rows)]
    real = [None if i % 5 == 1 else i / 8 for i in range(rows)]
    word = [None if i % 11 == 2 else ["Rome", "Bern", "Zürich"][i % 3] for i in range(rows)]
    truth = [None if i % 6 == 5 else i % 2 == 0 for i in range(rows)]
    place = [i * i for i in range(rows)]
    schema = pa.schema(
        [
            ("whole", pa.int64()),
            ("real", pa.float64()),
            ("word", pa.string()),
            ("truth", pa.bool_()),
            pa.field("place", pa.int32(), False),
        ]
    )
    table = pa.table([whole, real, word, truth, place], schema)
    expected = {
        "whole": plain(whole),
        "real": plain(numbers(real)),
        "word": plain([w and text(w) for w in word]),
        "truth": plain(truth),
        "place": plain(place),
    }
    cells["matrix"] = expected
    for codec in ["none", "snappy", "gzip", "zstd", "lz4"]:
        for version in ["1.0", "2.0"]:
            for dictionary in [True, False]:
                name = f"matrix_{codec}_{version[0]}_{'dictionary' if dictionary else 'plain'}.parquet"
                how = {"compression": codec, "data_page_version": version, "use_dictionary": dictionary}
                how["row_group_size"] = 23 if codec == "zstd" else rows
                pq.write_table(table.drop(["truth"]), HERE / name, store_schema=False, write_statistics=False, **how)
    encodings = {
        "whole": "DELTA_BINARY_PACKED",
        "real": "BYTE_STREAM_SPLIT",
        "word": "DELTA_BYTE_ARRAY",
        "truth": "RLE",
        "place": "BYTE_STREAM_SPLIT",
    }
    pq.write_table(
        table,
        HERE / "matrix_encodings.parquet",
        use_dictionary=False,
        column_encoding=encodings,
        write_statistics=False,
    )
    encodings["word"] = "DELTA_LENGTH_BYTE_ARRAY"
    how = {"use_dictionary": False, "column_encoding": encodings, "data_page_version": "2.0", "compression": "zstd"}
    pq.write_table(table, HERE / "matrix_encodings_2.parquet", write_statistics=False, **how)


def other_programs():
    word = ["a", None, "b", "a"]
    day = [dt.date(2024, 2, 29), None, dt.date(1969, 12, 31), dt.date(1970, 1, 1)]
    moment = [dt.datetime(2024, 2, 29, 12, 30, 0, 250), None, dt.datetime(1969, 12, 31, 23), EPOCH]
    span = [dt.timedelta(days=2, microseconds=3), None, dt.timedelta(seconds=-1), dt.timedelta()]
    clock = [dt.time(1, 2, 3, 4), None, dt.time(23, 59, 59, 999_999), dt.time()]
    micro = dt.timedelta(microseconds=1)
    days = [d and (d - EPOCH.date()).days for d in day]
    moments = [m and (m - EPOCH) // micro for m in moment]
    spans = [None if s is None else s // micro for s in span]
    clocks = [None if c is None else ((c.hour * 60 + c.minute) * 60 + c.second) * 10**6 + c.microsecond for c in clock]
    frame = pl.DataFrame(
        {
            "word": word,
            "category": pl.Series(word, dtype=pl.Categorical),
            "day": day,
            "moment": pl.Series(moment, dtype=pl.Datetime("us")),
            "moment ms": pl.Series(moment, dtype=pl.Datetime("us")).dt.cast_time_unit("ms"),
            "span": pl.Series(span, dtype=pl.Duration("us")),
            "span ns": pl.Series(span, dtype=pl.Duration("ns")),
            "clock": clock,
            "small": pl.Series([1, None, -128, 127], dtype=pl.Int8),
            "unsigned": pl.Series([1, None, 2**64 - 1, 0], dtype=pl.UInt64),
            "truth": [True, None, False, True],
            "money": pl.Series([D("1.25"), None, D("-0.01"), D("0")], dtype=pl.Decimal(12, 2)),
            "nothing": pl.Series([None] * 4, dtype=pl.Null),
        }
    )
    frame.write_parquet(HERE / "polars.parquet", compression="zstd", statistics=False)
    words = plain([w and text(w) for w in word])
    cells["polars.parquet"] = {
        "word": words,
        "category": words,
        "day": times(1, "date", days),
        "moment": times(PER["us"], "date", moments),
        "moment ms": times(PER["ms"], "date", [None if m is None else m // 1000 for m in moments]),
        "span": times(PER["us"], "duration", spans),
        "span ns": times(PER["ns"], "duration", [None if s is None else s * 1000 for s in spans]),
        "clock": times(PER["ns"], "duration", [None if c is None else c * 1000 for c in clocks]),
        "small": plain([1, None, -128, 127]),
        "unsigned": plain(numbers([1, None, 2**64 - 1, 0])),
        "truth": plain([True, None, False, True]),
        "money": plain(numbers([D("1.25"), None, D("-0.01"), D("0")])),
        "nothing": plain([None] * 4),
    }
    frame = pd.DataFrame(
        {
            "word": pd.Series(word, dtype="object"),
            "category": pd.Series(word, dtype="category"),
            "moment": pd.Series(pd.to_datetime(moment)).astype("datetime64[us]"),
            "span": pd.Series(pd.to_timedelta(span)).astype("timedelta64[us]"),
            "whole": pd.Series([1, None, 3, -4], dtype="Int64"),
            "real": [0.5, math.nan, -1.0, 2.0],
            "truth": pd.Series([True, None, False, True], dtype="boolean"),
        }
    )
    frame.to_parquet(HERE / "pandas.parquet", compression="zstd", write_statistics=False)
    cells["pandas.parquet"] = {
        "word": words,
        "category": words,
        "moment": times(PER["us"], "date", moments),
        "span": times(PER["us"], "duration", spans),
        "whole": plain([1, None, 3, -4]),
        "real": plain(numbers([0.5, None, -1.0, 2.0])),
        "truth": plain([True, None, False, True]),
    }


every_type()
int96()
arrow_types_on_plain_numbers()
lists()
matrix()
other_programs()
lines = [
    f"{json.dumps(name)}: {json.dumps(columns, ensure_ascii=False, separators=(',', ':'))}"
    for name, columns in cells.items()
]
(HERE / "cells.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
print(sum(f.stat().st_size for f in HERE.glob("*.parquet")), "bytes")

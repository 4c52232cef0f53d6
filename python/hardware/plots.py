"""Pictures of how long copies took: SVG, written by hand, since nothing else may be installed."""

from __future__ import annotations

from xml.sax.saxutils import escape

WIDTH, ROW, TOP, LEFT, RIGHT = 980, 22, 60, 400, 760
#: The library's copies, and what they are to be compared with.
OURS, REFERENCE = "#0072b2", "#b0b0b0"


def pictures(runtimes):
    """A picture of each runtime's measurements, by its name."""
    return {runtime["runtime"].lower(): picture(runtime) for runtime in runtimes if bars(runtime)}


def bars(runtime):
    """A label, a rate in gigabytes a second, and words beside, for each measurement that has a rate."""
    found = []
    for row in runtime.get("copies", []):
        rate = row.get("gigabytes_per_second")
        if rate is None:
            continue
        shape = f", {row['columns']} of {size(row['bytes_each'])}" if "columns" in row else ""
        words = f"{rate:.3g} GB/s"
        if row.get("of_link_rate") is not None:
            words += f", {row['of_link_rate']:.0%} of one large copy"
        if row.get("times_call_per_buffer") is not None:
            words += f", {row['times_call_per_buffer']:.2g} times a call for each"
        found.append((f"{row['device']}: {row['way']}{shape}", rate, words, "columns" in row))
    return found


def size(count):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= unit and count % unit == 0:
            return f"{count // unit} {name}"
    return f"{count} bytes"


def picture(runtime):
    """One bar to a measurement. The longest one ends at the right."""
    all_bars = bars(runtime)
    most = max(rate for _, rate, _, _ in all_bars) or 1
    height = TOP + ROW * len(all_bars) + 20
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="system-ui, sans-serif" font-size="12" fill="#222">',
        '<rect width="100%" height="100%" fill="#fff"/>',
        f'<text x="16" y="26" font-size="16" font-weight="600">{escape(runtime["runtime"])}: rates of copies</text>',
        '<text x="16" y="44">Gray: one large copy by the driver, which the others are compared with.</text>',
    ]
    for number, (label, rate, words, is_ours) in enumerate(all_bars):
        y = TOP + ROW * number
        long = (RIGHT - LEFT) * rate / most
        lines += [
            f'<text x="{LEFT - 8}" y="{y + 14}" text-anchor="end">{escape(label)}</text>',
            f'<rect x="{LEFT}" y="{y + 3}" width="{long:.1f}" height="{ROW - 6}" fill="{OURS if is_ours else REFERENCE}"/>',
            f'<text x="{LEFT + long + 6:.1f}" y="{y + 14}" font-size="11">{escape(words)}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])

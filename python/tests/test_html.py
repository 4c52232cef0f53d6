"""What notebooks show: well-formed, without colours of its own, cut where there is much."""

import html.parser

import numpy as np
import pyarrow as pa
import pytest

import arrow_device as ad

BATCH = pa.record_batch({"x": [1, 2, 3], "y": ["a", None, "<c>"], "l": [[1], [2, 3], [4]]})
WIDE = pa.record_batch({f"c{number}": [number] for number in range(1000)})


class Page(html.parser.HTMLParser):
    """The cells of each table, row by row."""

    def __init__(self, shown):
        super().__init__()
        self.open, self.tables, self.texts = [], [], []
        self.feed(shown._repr_html_())
        self.close()
        assert self.open == [], "not closed"

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            # In a light notebook and in a dark one, everything has the notebook's colours.
            assert name == "style" and "color" not in value and "background" not in value
        if tag == "br":
            return
        self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "td" in self.open or "th" in self.open:
            self.tables[-1][-1][-1] += data
        else:
            self.texts.append(data)


def test_the_values_are_shown_and_the_columns_below():
    values, columns = Page(ad.record_batch(BATCH)).tables
    assert values == [
        ["", "xint64", "yutf8", "llist<item: int64>"],
        ["0", "1", "a", "[1]"],
        ["1", "2", "null", "[2, 3]"],
        ["2", "3", "<c>", "[4]"],
    ]
    assert [row[0] for row in columns] == ["column", "(root)", "x", "y", "l", "item"]
    (head, value), _ = Page(ad.array(pa.array([1.5]))).tables
    assert (head, value) == (["", "float64"], ["0", "1.5"])


@pytest.mark.parametrize("array, lengths", [
    (ad.record_batch(BATCH)[1:], [2, 2, 2, 2, 3]),
    (ad.record_batch(BATCH).column("l")[2:], [1, 1]),
    (ad.array(pa.array([{"a": [1, 2]}, {"a": [3]}, {"a": []}]))[1:], [2, 2, 1]),
    (ad.array(np.arange(12).reshape(4, 3))[2:], [2, 6]),
    (ad.array(pa.array([[1, 2], [3]], pa.large_list(pa.int8())))[1:], [1, 1]),
    (ad.array(pa.array([[("k", 1)], [("l", 2), ("m", 3)]], pa.map_(pa.string(), pa.int64())))[1:], [1, 2, 2, 2]),
    (ad.array(pa.array([[1, 2], None, [3]]))[1:2], [1, 0]),
    (ad.array(pa.array([[1, 2], [3]]))[:0], [0, 0]),
])
def test_a_slice_shows_its_own_lengths_in_children_too(array, lengths):
    assert [int(row[3]) for row in Page(array).tables[-1][1:]] == lengths


def test_a_thousand_columns_are_cut():
    page = Page(ad.record_batch(WIDE))
    values, columns = page.tables
    assert len(values[0]) == 21 and len(columns) < 60
    assert "and 980 more columns" in page.texts and "and 951 more rows of columns" in page.texts
    text = repr(ad.record_batch(WIDE))
    assert len(text) < 2000 and text.endswith("and 980 more columns") and "1000 columns" in text


def test_what_is_not_there_takes_no_room():
    assert len(Page(ad.record_batch(pa.record_batch([], names=[]))).tables) == 1
    assert "<br>" not in ad.array(pa.array([1]))._repr_html_()
    assert "<br>" in ad.record_batch(pa.record_batch({"x": [1]}))._repr_html_()


def test_many_rows_and_long_values_are_cut():
    page = Page(ad.array(pa.array(["x" * 1000] * 1000)))
    assert len(page.tables[0]) == 11 and page.tables[0][1][1] == "x" * 39 + "…"
    assert "and 990 more rows" in page.texts


def test_data_on_a_device_is_shown_on_request_only(software):
    there = ad.record_batch(BATCH).to(software)
    page = Page(there)
    assert len(page.tables) == 1
    assert "".join(page.texts) == "The data is on ext_dev:0, and is not read to be shown: to_host() copies it."
    assert len(Page(there.to_host()).tables) == 2


def test_wrong_data_is_shown_without_an_exception():
    keys = pa.py_buffer(bytes([7]))
    wrong = pa.DictionaryArray.from_arrays(pa.Array.from_buffers(pa.int8(), 1, [None, keys]), pa.array(["a"]), safe=False)
    assert len(Page(ad.array(wrong)).tables) == 1

//! The parameters of `arrow.fixed_shape_tensor`: a shape and an order, as JSON.
//!
//! The text comes from other parties. Only the two lists are read; everything else in the text is
//! skipped.

use super::dims::{MAX_DIMENSIONS, is_permutation};
use crate::{Error, ErrorKind, Result};

/// The name of the extension.
pub(crate) const NAME: &str = "arrow.fixed_shape_tensor";

/// The shape of one element, and the order of its dimensions in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FixedShape {
    /// The lengths of the dimensions, in the order of memory.
    pub(crate) shape: Vec<i64>,
    /// Dimension `i` of the tensor is dimension `order[i]` in memory.
    pub(crate) order: Vec<usize>,
}

impl FixedShape {
    /// Reads the parameters, for lists of `size` elements.
    pub(crate) fn parse(metadata: &[u8], size: i64) -> Result<Self> {
        let invalid = |what: &str| {
            let message = format!("the metadata of {NAME} {what}");
            Error::new(ErrorKind::Malformed, message)
        };
        let parsed = std::str::from_utf8(metadata).ok().and_then(|text| ShapeReader(text).object());
        let (shape, order) = parsed.ok_or_else(|| invalid("is not JSON"))?;
        let shape = shape.ok_or_else(|| invalid("has no shape"))?;
        if shape.len() > MAX_DIMENSIONS || shape.iter().any(|length| *length < 0) {
            return Err(invalid("has a shape that cannot be"));
        }
        let product = shape.iter().try_fold(1_i64, |product, length| product.checked_mul(*length));
        if product != Some(size) {
            return Err(invalid("has a shape of another size than the lists"));
        }
        let order = match order {
            None => (0..shape.len()).collect(),
            Some(order) => {
                let axes: Option<Vec<usize>> =
                    order.iter().map(|axis| usize::try_from(*axis).ok()).collect();
                axes.filter(|axes| is_permutation(axes, shape.len()))
                    .ok_or_else(|| invalid("has a permutation that is none"))?
            }
        };
        Ok(Self { shape, order })
    }

    /// The parameters as text.
    pub(crate) fn to_json(&self) -> String {
        if self.order.iter().enumerate().all(|(index, axis)| index == *axis) {
            return format!("{{\"shape\":{:?}}}", self.shape);
        }
        format!("{{\"shape\":{:?},\"permutation\":{:?}}}", self.shape, self.order)
    }
}

/// The rest of the text, which is to be read.
struct ShapeReader<'text>(&'text str);

type ShapeLists = (Option<Vec<i64>>, Option<Vec<i64>>);

impl<'text> ShapeReader<'text> {
    /// Reads the whole text: the shape and the permutation of an object.
    fn object(&mut self) -> Option<ShapeLists> {
        let (mut shape, mut order) = (None, None);
        self.expect('{')?;
        if self.accept('}') {
            return self.at_end().then_some((shape, order));
        }
        loop {
            let key = self.string()?;
            self.expect(':')?;
            match key {
                "shape" => shape = Some(self.numbers()?),
                "permutation" => order = Some(self.numbers()?),
                _ => self.skip_value()?,
            }
            if !self.accept(',') {
                self.expect('}')?;
                return self.at_end().then_some((shape, order));
            }
        }
    }

    fn at_end(&self) -> bool {
        self.0.trim_ascii().is_empty()
    }

    fn accept(&mut self, token: char) -> bool {
        match self.0.trim_ascii_start().strip_prefix(token) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: char) -> Option<()> {
        self.accept(token).then_some(())
    }

    /// Reads a string, without its escapes resolved.
    fn string(&mut self) -> Option<&'text str> {
        self.expect('"')?;
        let mut escaped = false;
        let end = self.0.find(|c| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        })?;
        let (string, rest) = (self.0.get(..end)?, self.0.get(end + 1..)?);
        self.0 = rest;
        Some(string)
    }

    fn number(&mut self) -> Option<i64> {
        self.0 = self.0.trim_ascii_start();
        let end = self.0.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(self.0.len());
        let number = self.0.get(..end)?.parse().ok()?;
        self.0 = self.0.get(end..)?;
        Some(number)
    }

    fn numbers(&mut self) -> Option<Vec<i64>> {
        let mut numbers = Vec::new();
        self.expect('[')?;
        if self.accept(']') {
            return Some(numbers);
        }
        loop {
            numbers.push(self.number()?);
            if !self.accept(',') {
                self.expect(']')?;
                return Some(numbers);
            }
        }
    }

    /// Skips any value. Brackets are counted and not matched, because what is between them is not
    /// used.
    fn skip_value(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            self.0 = self.0.trim_ascii_start();
            match self.0.chars().next()? {
                '"' => drop(self.string()?),
                c @ ('[' | '{') => {
                    depth += 1;
                    self.accept(c);
                }
                ']' | '}' | ',' if depth == 0 => return Some(()),
                c @ (']' | '}') => {
                    depth -= 1;
                    self.accept(c);
                }
                c => drop(self.accept(c)),
            }
            if depth == 0 && self.0.trim_ascii_start().starts_with([',', '}']) {
                return Some(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, size: i64) -> Result<FixedShape> {
        FixedShape::parse(text.as_bytes(), size)
    }

    #[test]
    fn what_others_write_is_read() {
        let plain = parse("{\"shape\":[2,5]}", 10).unwrap();
        assert_eq!((&plain.shape[..], &plain.order[..]), (&[2, 5][..], &[0, 1][..]));
        let text = " { \"dim_names\" : [\"C\\\"]\",\"H\"], \"shape\" : [ 100 , 2 ] , \"permutation\":[1,0] , \"x\": null }";
        let named = parse(text, 200).unwrap();
        assert_eq!((&named.shape[..], &named.order[..]), (&[100, 2][..], &[1, 0][..]));
        assert_eq!(parse("{\"a\":{\"b\":[{},1]},\"shape\":[]}", 1).unwrap().shape, []);
        assert_eq!(parse("{\"shape\":[0,3]}", 0).unwrap().shape, [0, 3]);
        for shape in [plain, named] {
            let size = shape.shape.iter().product();
            assert_eq!(parse(&shape.to_json(), size).unwrap(), shape);
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for text in [
            "",
            "{",
            "{}",
            "[]",
            "{\"shape\":[2,5]",
            "{\"shape\":[2,5]} x",
            "{\"shape\":[2,-5]}",
            "{\"shape\":[-2,-5]}",
            "{\"shape\":[2,4]}",
            "{\"shape\":[2 5]}",
            "{\"shape\":[9223372036854775807,9223372036854775807]}",
            "{\"shape\":[2,5],\"permutation\":[0]}",
            "{\"shape\":[2,5],\"permutation\":[1,1]}",
            "{\"shape\":[2,5],\"permutation\":[0,-1]}",
            "{\"x\":",
            "{\"x\":\"\\\"",
            "{\"x\":[[[",
        ] {
            assert_eq!(parse(text, 10).unwrap_err().kind(), ErrorKind::Malformed, "{text}");
        }
        assert_eq!(FixedShape::parse(b"\xff", 1).unwrap_err().kind(), ErrorKind::Malformed);
    }
}

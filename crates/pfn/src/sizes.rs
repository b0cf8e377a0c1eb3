// SPDX-License-Identifier: MIT OR Apache-2.0
//! Block sizes as users write them: `2M,4M,32M,1G`.

use crate::{BASE_PAGE_BYTES, Order};

/// Why a list of block sizes was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// Not a number with an optional unit.
    #[error("{0:?} is not a size; write a number and a unit, such as 64K, 2M or 1G")]
    Syntax(String),
    /// Not a block the buddy system could form.
    #[error("{0:?} is not a power of two of at least 4K and at most 1T")]
    NotABlock(String),
    /// Empty list.
    #[error("no block size given; write for example 2M,4M,32M,1G")]
    Empty,
}

/// Parses `64K`, `2M`, `1G`, `1T` or a plain number of bytes (binary units, case ignored;
/// `KB`, `KiB` and the like are accepted too).
///
/// # Errors
/// [`SizeError::Syntax`] with the offending text.
pub fn parse_bytes(text: &str) -> Result<u64, SizeError> {
    let syntax = || SizeError::Syntax(text.to_string());
    let trimmed = text.trim();
    let digits = trimmed
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(trimmed.len());
    let number: u64 = trimmed[..digits].parse().map_err(|_| syntax())?;
    let shift = match trimmed[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(syntax()),
    };
    number.checked_mul(1 << shift).ok_or_else(syntax)
}

/// Writes bytes with the largest binary unit that keeps the number exact, such as `2M`, or with
/// one decimal where none does.
pub fn format_bytes(bytes: u64) -> String {
    const UNITS: [(&str, u32); 4] = [("T", 40), ("G", 30), ("M", 20), ("K", 10)];
    for (unit, shift) in UNITS {
        if bytes >= 1 << shift {
            return if bytes.is_multiple_of(1 << shift) {
                format!("{}{unit}", bytes >> shift)
            } else {
                format!("{:.1}{unit}", bytes as f64 / (1u64 << shift) as f64)
            };
        }
    }
    format!("{bytes}B")
}

/// Block sizes to report, ascending, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeList(Vec<Order>);

impl SizeList {
    /// 2 MB, 4 MB, 32 MB and 1 GB: the sizes of Contiguitas figure 4.
    pub fn standard() -> SizeList {
        SizeList(vec![Order(9), Order(10), Order(13), Order(18)])
    }

    /// A list of given orders.
    ///
    /// # Errors
    /// When it is empty or an order exceeds [`Order::MAX`].
    pub fn new(mut orders: Vec<Order>) -> Result<SizeList, SizeError> {
        orders.sort_unstable();
        orders.dedup();
        match orders.last() {
            None => Err(SizeError::Empty),
            Some(&top) if top > Order::MAX => Err(SizeError::NotABlock(format!("order {}", top.0))),
            Some(_) => Ok(SizeList(orders)),
        }
    }

    /// The orders, ascending.
    pub fn orders(&self) -> &[Order] {
        &self.0
    }
}

impl std::str::FromStr for SizeList {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<SizeList, SizeError> {
        let mut orders = Vec::new();
        for item in text.split(',').filter(|item| !item.trim().is_empty()) {
            let bytes = parse_bytes(item)?;
            if !bytes.is_power_of_two() || bytes < BASE_PAGE_BYTES || bytes > Order::MAX.bytes() {
                return Err(SizeError::NotABlock(item.trim().to_string()));
            }
            orders.push(Order((bytes / BASE_PAGE_BYTES).trailing_zeros() as u8));
        }
        SizeList::new(orders)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_parse_as_users_write_them() {
        let list: SizeList = "1G, 2M,64k,2MiB".parse().unwrap();
        assert_eq!(list.orders(), [Order(4), Order(9), Order(18)]);
        assert_eq!("2M,4M,32M,1G".parse(), Ok(SizeList::standard()));
    }

    #[test]
    fn wrong_sizes_name_themselves() {
        assert_eq!(
            "3M".parse::<SizeList>(),
            Err(SizeError::NotABlock("3M".into()))
        );
        assert_eq!(
            "2X".parse::<SizeList>(),
            Err(SizeError::Syntax("2X".into()))
        );
        assert_eq!(",".parse::<SizeList>(), Err(SizeError::Empty));
        assert_eq!(
            "2T".parse::<SizeList>(),
            Err(SizeError::NotABlock("2T".into()))
        );
        let overflow = "99999999999999999999G";
        assert_eq!(
            overflow.parse::<SizeList>(),
            Err(SizeError::Syntax(overflow.into()))
        );
    }

    #[test]
    fn bytes_print_exactly_or_with_one_decimal() {
        assert_eq!(format_bytes(2 << 20), "2M");
        assert_eq!(format_bytes(1536 << 20), "1.5G");
        assert_eq!(format_bytes(100), "100B");
    }
}

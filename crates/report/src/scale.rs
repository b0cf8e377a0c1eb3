// SPDX-License-Identifier: MIT OR Apache-2.0
//! Axes: nice ticks and numbers as people write them.

/// How the numbers of an axis or a cell are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A ratio, printed in per cent.
    Percent,
    /// Seconds, printed in the unit that fits (s, min, h, d).
    Seconds,
    /// A plain count with k, M, G.
    Count,
    /// A plain number with up to two decimals.
    Plain,
    /// Binary logarithm of a number of bytes, printed as the bytes.
    Log2Bytes,
}

impl Unit {
    /// One value of this unit, at most about six characters; a dash if it is not finite.
    pub fn format(self, value: f64) -> String {
        if !value.is_finite() {
            return "–".into();
        }
        match self {
            Unit::Percent => format!("{} %", trimmed(value * 100.0)),
            Unit::Seconds => duration(value),
            Unit::Count => count(value),
            Unit::Plain => trimmed(value),
            Unit::Log2Bytes => ample_pfn::format_bytes(2f64.powf(value).round() as u64),
        }
    }
}

fn trimmed(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 99.95 || v == 0.0 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

fn duration(seconds: f64) -> String {
    let (value, unit) = match seconds.abs() {
        s if s < 120.0 => (seconds, "s"),
        s if s < 7200.0 => (seconds / 60.0, "min"),
        s if s < 172_800.0 => (seconds / 3600.0, "h"),
        _ => (seconds / 86_400.0, "d"),
    };
    format!("{} {unit}", trimmed(value))
}

fn count(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        v if v >= 1e9 => (value / 1e9, "G"),
        v if v >= 1e6 => (value / 1e6, "M"),
        v if v >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    format!("{}{unit}", trimmed(scaled))
}

/// A linear axis from data to pixels.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    low: f64,
    high: f64,
    from_px: f64,
    to_px: f64,
    step: f64,
}

impl Axis {
    /// An axis over `[low, high]`, widened to whole ticks (about `ticks` of them), drawn from
    /// `from_px` to `to_px`. Values that are not finite, or an empty interval, give a unit axis.
    pub fn new(low: f64, high: f64, ticks: usize, from_px: f64, to_px: f64) -> Axis {
        let (low, high) = usable(low, high);
        let raw = (high - low) / ticks.max(1) as f64;
        let magnitude = 10f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0]
            .into_iter()
            .map(|factor| factor * magnitude)
            .find(|&step| step >= raw * (1.0 - 1e-9))
            .unwrap_or(10.0 * magnitude);
        Axis::stepped(low, high, step, from_px, to_px)
    }

    /// An axis over `[low, high]`, widened to multiples of a given `step`.
    pub fn stepped(low: f64, high: f64, step: f64, from_px: f64, to_px: f64) -> Axis {
        let (low, high) = usable(low, high);
        // A bound within rounding of a tick stays on that tick.
        let low = (low / step + 1e-9).floor() * step;
        let high = ((high / step - 1e-9).ceil() * step).max(low + step);
        Axis {
            low,
            high,
            from_px,
            to_px,
            step,
        }
    }

    /// Pixel position of a value, clamped to the axis; not-a-number stands at its low end.
    pub fn px(&self, value: f64) -> f64 {
        let value = if value.is_nan() { self.low } else { value };
        let share = (value.clamp(self.low, self.high) - self.low) / (self.high - self.low);
        self.from_px + share * (self.to_px - self.from_px)
    }

    /// Values at which ticks stand, both ends included.
    pub fn ticks(&self) -> Vec<f64> {
        let count = ((self.high - self.low) / self.step).round() as usize;
        (0..=count)
            .map(|index| self.low + index as f64 * self.step)
            .collect()
    }
}

fn usable(low: f64, high: f64) -> (f64, f64) {
    let usable = low.is_finite() && high.is_finite() && high > low;
    if usable { (low, high) } else { (0.0, 1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_cover_the_data() {
        let scale = Axis::new(0.0, 0.42, 5, 0.0, 100.0);
        let ticks: Vec<String> = scale
            .ticks()
            .iter()
            .map(|&t| Unit::Percent.format(t))
            .collect();
        assert_eq!(ticks, ["0 %", "10 %", "20 %", "30 %", "40 %", "50 %"]);
        assert_eq!(scale.px(0.25), 50.0);
        assert_eq!(scale.px(7.0), 100.0);
    }

    #[test]
    fn unusable_bounds_fall_back_to_the_unit_axis() {
        assert_eq!(Axis::new(f64::NAN, 1.0, 4, 0.0, 1.0).ticks().len(), 5);
        assert_eq!(Axis::new(3.0, 3.0, 4, 0.0, 1.0).px(0.5), 0.5);
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(Unit::Percent.format(0.3149), "31.5 %");
        assert_eq!(Unit::Percent.format(0.0), "0 %");
        assert_eq!(Unit::Seconds.format(7200.0), "2 h");
        assert_eq!(Unit::Count.format(1_500_000.0), "1.5M");
        assert_eq!(Unit::Plain.format(1.005), "1");
        assert_eq!(Unit::Plain.format(100.4), "100");
    }
}

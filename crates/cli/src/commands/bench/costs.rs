//! What an operation took against what this machine allows at least: its share of the limit.
//!
//! An operation moves bytes and does arithmetic; whichever takes longer at full speed is its limit. Bytes are held against
//! the bandwidth of memory, so that an operation whose bytes stay in a cache may show more than its whole share.

use kauri_engine::{Ceilings, OpCost};

/// Timers tick; less than this is taken for this.
const SECONDS_MIN: f64 = 1e-9;

/// One kind of operation, held against the machine.
#[derive(Clone, Debug)]
pub struct OpShare {
    /// What was counted and timed.
    pub cost: OpCost,
    /// Of the phase's time.
    pub of_time: f64,
    /// Of the memory's bandwidth; not a number where that was not measured.
    pub of_bandwidth: f64,
    /// Of the machine's arithmetic; not a number where that was not measured.
    pub of_arithmetic: f64,
    /// Which of the two limits it.
    pub limit: Limit,
}

/// What keeps an operation from taking no time at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The bytes it moves.
    Bandwidth,
    /// The arithmetic it does.
    Arithmetic,
}

/// Every operation of a phase, the longest first.
pub fn shares(costs: &[OpCost], ceilings: &Ceilings) -> Vec<OpShare> {
    let total: f64 = costs.iter().map(|cost| cost.seconds).sum();
    let mut shares: Vec<OpShare> = costs.iter().map(|&cost| OpShare::new(cost, ceilings, total)).collect();
    shares.sort_by(|one, other| other.cost.seconds.total_cmp(&one.cost.seconds));
    shares
}

/// The operation that would gain the most by reaching its limit; none where limits were not measured.
pub fn furthest(shares: &[OpShare]) -> Option<&OpShare> {
    let measured = shares.iter().filter(|op| op.of_limit().is_finite());
    measured.max_by(|one, other| one.lost_seconds().total_cmp(&other.lost_seconds()))
}

impl OpShare {
    fn new(cost: OpCost, ceilings: &Ceilings, total_seconds: f64) -> Self {
        let seconds = cost.seconds.max(SECONDS_MIN);
        let of = |rate: f64, ceiling: f64| if ceiling > 0.0 { rate / ceiling } else { f64::NAN };
        let of_bandwidth = of(cost.bytes as f64 / seconds, ceilings.bandwidth_bytes_per_s);
        let of_arithmetic = of(cost.operations as f64 / seconds, ceilings.operations_per_s);
        Self {
            cost,
            of_time: cost.seconds / total_seconds.max(SECONDS_MIN),
            of_bandwidth,
            of_arithmetic,
            limit: if of_arithmetic > of_bandwidth { Limit::Arithmetic } else { Limit::Bandwidth },
        }
    }

    /// The least time that the machine allows over the time it took.
    pub fn of_limit(&self) -> f64 {
        self.of_bandwidth.max(self.of_arithmetic)
    }

    /// Bytes per second that it reached.
    pub fn bytes_per_s(&self) -> f64 {
        self.cost.bytes as f64 / self.cost.seconds.max(SECONDS_MIN)
    }

    /// Operations per second that it reached.
    pub fn operations_per_s(&self) -> f64 {
        self.cost.operations as f64 / self.cost.seconds.max(SECONDS_MIN)
    }

    fn lost_seconds(&self) -> f64 {
        self.cost.seconds * (1.0 - self.of_limit())
    }
}

impl Limit {
    /// The limit in a word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bandwidth => "bandwidth",
            Self::Arithmetic => "arithmetic",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: Ceilings = Ceilings { bandwidth_bytes_per_s: 100.0, operations_per_s: 1000.0, arithmetic: "test" };

    fn cost(name: &'static str, bytes: u64, operations: u64, seconds: f64) -> OpCost {
        OpCost { name, calls: 1, bytes, operations, seconds }
    }

    #[test]
    fn the_slower_of_bytes_and_arithmetic_is_the_limit() {
        // At full speed the bytes take 0.5 s and the arithmetic 0.1 s; the other way round below.
        let costs = [cost("read", 50, 100, 2.0), cost("multiply", 10, 500, 1.0)];
        let shares = shares(&costs, &MACHINE);
        let figures: Vec<_> = shares.iter().map(|op| (op.limit, op.of_limit())).collect();
        assert_eq!(figures, [(Limit::Bandwidth, 0.25), (Limit::Arithmetic, 0.5)]);
        assert_eq!(shares[0].of_arithmetic, 0.05);
        assert_eq!((shares[0].bytes_per_s(), shares[0].operations_per_s()), (25.0, 50.0));
    }

    #[test]
    fn the_furthest_is_weighed_by_time() {
        // The short one is at 1% of its limit, the long one at 50%: the long one still has more to gain.
        let costs = [cost("short", 1, 0, 1.0), cost("long", 500, 0, 10.0)];
        let shares = shares(&costs, &MACHINE);
        assert_eq!(shares[0].cost.name, "long");
        assert!((shares[0].of_time - 10.0 / 11.0).abs() < 1e-12);
        assert_eq!(furthest(&shares).map(|op| op.cost.name), Some("long"));
        assert!(furthest(&[]).is_none());
    }

    #[test]
    fn what_was_not_measured_is_no_limit() {
        let unknown = Ceilings { bandwidth_bytes_per_s: 0.0, operations_per_s: 0.0, arithmetic: "not measured" };
        let shares = shares(&[cost("read", 50, 100, 2.0), cost("nothing", 0, 0, 1.0)], &unknown);
        assert!(shares.iter().all(|op| op.of_limit().is_nan() && op.of_time.is_finite()));
        assert!(furthest(&shares).is_none());
    }

    #[test]
    fn no_time_and_no_work_are_still_numbers() {
        for op in shares(&[cost("nothing", 0, 0, 0.0), cost("instant", 8, 8, 0.0)], &MACHINE) {
            assert!(op.of_limit().is_finite() && op.of_time.is_finite() && op.bytes_per_s().is_finite());
        }
    }
}

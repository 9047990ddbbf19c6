//! How much of the machine is in use.

/// Ticks of all cores since boot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Ticks {
    busy: u64,
    all: u64,
}

/// Remembers the last look, for use is a difference of two.
#[derive(Debug, Default)]
pub(super) struct Cpu {
    before: Ticks,
}

/// What is in use now.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Use {
    /// Of all cores, from 0 to 1.
    pub(super) cpu: f64,
    /// KiB in use.
    pub(super) memory_kib: u64,
    /// KiB there are.
    pub(super) memory_all_kib: u64,
}

impl Use {
    /// Zero where the system does not say.
    pub(super) fn now(cpu: &mut Cpu) -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let now = ticks(&read("/proc/stat"));
        let busy = now.busy.saturating_sub(cpu.before.busy);
        let all = now.all.saturating_sub(cpu.before.all);
        cpu.before = now;
        let (memory_kib, memory_all_kib) = memory(&read("/proc/meminfo"));
        Self {
            cpu: if all == 0 { 0.0 } else { busy as f64 / all as f64 },
            memory_kib,
            memory_all_kib,
        }
    }
}

/// The first line of /proc/stat: user nice system idle iowait irq softirq steal, and guests that are counted in user.
fn ticks(stat: &str) -> Ticks {
    let line = stat.lines().next().unwrap_or_default();
    let numbers: Vec<u64> = line
        .split_whitespace()
        .skip(1)
        .take(8)
        .filter_map(|word| word.parse().ok())
        .collect();
    let all = numbers.iter().copied().fold(0, u64::saturating_add);
    let idle = numbers.iter().skip(3).take(2).copied().fold(0, u64::saturating_add);
    Ticks {
        busy: all.saturating_sub(idle),
        all,
    }
}

/// KiB in use, and KiB there are.
fn memory(meminfo: &str) -> (u64, u64) {
    let find = |name: &str| {
        let rest = meminfo.lines().find_map(|line| line.strip_prefix(name));
        rest.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
            .unwrap_or(0)
    };
    let all = find("MemTotal:");
    (all.saturating_sub(find("MemAvailable:")), all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn use_is_read_from_what_the_system_says() {
        let stat = "cpu  10 1 5 100 4 0 1 0 0 0\ncpu0 10 1 5 100 4 0 1 0 0 0\n";
        assert_eq!(ticks(stat), Ticks { busy: 17, all: 121 });
        assert_eq!(ticks("nonsense"), Ticks::default());
        let meminfo = "MemTotal:       1000 kB\nMemFree:  100 kB\nMemAvailable:    400 kB\n";
        assert_eq!(memory(meminfo), (600, 1000));
    }
}

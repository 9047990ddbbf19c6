//! Addresses of pods and nodes, unique while they live: made-up ones, or of the loopback network.

use std::collections::HashSet;
use std::net::Ipv4Addr;

/// A block of IPv4 addresses, handed out in order.
#[derive(Debug)]
pub(crate) struct Addresses {
    base: u32,
    size: u32,
    next: u32,
    used: HashSet<u32>,
}

impl Addresses {
    /// Pods: 10.0.0.0/8.
    pub(crate) fn of_pods() -> Self {
        Self::block(Ipv4Addr::new(10, 0, 0, 0), 24)
    }

    /// Nodes: 172.16.0.0/12.
    pub(crate) fn of_nodes() -> Self {
        Self::block(Ipv4Addr::new(172, 16, 0, 0), 20)
    }

    /// Pods of this machine: 127.64.0.0/10, all of which are this machine.
    pub(crate) fn of_loopback() -> Self {
        Self::block(Ipv4Addr::new(127, 64, 0, 0), 22)
    }

    fn block(base: Ipv4Addr, bits: u32) -> Self {
        Self {
            base: base.into(),
            size: 1 << bits,
            next: 0,
            used: HashSet::new(),
        }
    }

    /// Marks an address that somebody already has.
    pub(crate) fn claim(&mut self, address: Ipv4Addr) {
        self.used.insert(address.into());
    }

    /// A free address; the oldest one again in the unlikely case that all are taken.
    pub(crate) fn take(&mut self) -> Ipv4Addr {
        for _ in 0..=self.used.len() {
            // The first address of a block is its network's own.
            self.next = if self.next + 1 >= self.size { 1 } else { self.next + 1 };
            if self.used.insert(self.base + self.next) {
                break;
            }
        }
        Ipv4Addr::from(self.base + self.next)
    }

    /// Gives an address back.
    pub(crate) fn give(&mut self, address: Ipv4Addr) {
        self.used.remove(&address.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_unique_and_come_back() {
        let mut pool = Addresses::block(Ipv4Addr::new(10, 0, 0, 0), 2);
        pool.claim(Ipv4Addr::new(10, 0, 0, 2));
        assert_eq!(
            [pool.take(), pool.take()],
            [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 3)]
        );
        pool.give(Ipv4Addr::new(10, 0, 0, 2));
        assert_eq!(pool.take(), Ipv4Addr::new(10, 0, 0, 2));
        // All taken: still an answer.
        pool.take();
    }
}

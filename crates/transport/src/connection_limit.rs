//! The limit on a server's connections.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

/// A limit of `most` connections. One address gets at most half of them, so that a client that opens
/// as many as it can does not block the others.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionLimit {
    most: usize,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// A permit for one connection. Dropping it makes room for another connection.
#[derive(Debug)]
pub(crate) struct Permit {
    address: IpAddr,
    taken: Arc<Mutex<Taken>>,
}

impl ConnectionLimit {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, taken: Arc::default() }
    }

    /// Takes a permit for a connection from this address; `None` if a limit is reached.
    pub(crate) fn take(&self, address: IpAddr) -> Option<Permit> {
        let mut taken = self.taken.lock();
        let of_address = taken.by_address.get(&address).copied().unwrap_or_default();
        if taken.all >= self.most || of_address >= self.most.div_ceil(2) {
            return None;
        }
        taken.all += 1;
        taken.by_address.insert(address, of_address + 1);
        Some(Permit { address, taken: Arc::clone(&self.taken) })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut taken = self.taken.lock();
        taken.all -= 1;
        if let Some(of_address) = taken.by_address.get_mut(&self.address) {
            *of_address -= 1;
            if *of_address == 0 {
                taken.by_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn nobody_takes_all_of_it_and_what_is_given_back_is_free() {
        let limit = ConnectionLimit::new(4);
        let [a, b, c] = [1, 2, 3].map(|host| IpAddr::from(Ipv4Addr::new(10, 0, 0, host)));
        let own: Vec<_> = (0..2).map(|_| limit.take(a).unwrap()).collect();
        assert!(limit.take(a).is_none(), "half is the most");
        let others: Vec<_> = (0..2).map(|_| limit.take(b).unwrap()).collect();
        assert!(limit.take(c).is_none(), "it is full");
        drop(own);
        assert!(limit.take(c).is_some());
        drop(others);
        assert_eq!(limit.taken.lock().all, 0);
        assert!(limit.taken.lock().by_address.is_empty());
    }
}

//! Connections that have not proved yet that they know the token: who has to go when there are too many.
//!
//! The oldest of the address with the most goes: who opens many connections loses them, and not who opens one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::sync::Mutex;

/// Those of one server.
#[derive(Debug)]
pub struct Strangers {
    most: usize,
    most_of_address: usize,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    next: u64,
    /// In the order in which they came.
    waiting: BTreeMap<u64, (IpAddr, CancellationToken)>,
}

/// One of them, until it is dropped: when it has proved who it is, or is gone.
#[derive(Debug)]
pub struct Stranger {
    number: u64,
    over: CancellationToken,
    all: Arc<Strangers>,
}

impl Strangers {
    pub fn new(most: usize, most_of_address: usize) -> Arc<Self> {
        Arc::new(Strangers { most, most_of_address, known: Mutex::default() })
    }

    /// One more, for whom another one may have to go.
    pub fn arrive(self: &Arc<Self>, address: IpAddr) -> Stranger {
        let (site, over) = (site_of(address), CancellationToken::new());
        let mut known = self.known.lock();
        let number = known.next;
        known.next += 1;
        known.waiting.insert(number, (site, over.clone()));
        if known.waiting.values().filter(|(other, _)| *other == site).count() > self.most_of_address {
            known.end_oldest_of(site, number);
        } else if known.waiting.len() > self.most {
            known.end_one(number);
        }
        Stranger { number, over, all: self.clone() }
    }

    /// Ends one of them, since there is no descriptor for another connection; false when there is nobody.
    pub fn end_one(&self) -> bool {
        let mut known = self.known.lock();
        let nobody = known.next;
        known.end_one(nobody)
    }
}

impl Known {
    /// Ends the oldest of the address with the most (of those with as many: that was here first), but not this one; false
    /// when there is nobody else.
    fn end_one(&mut self, but: u64) -> bool {
        let mut counts: HashMap<IpAddr, (usize, Reverse<u64>)> = HashMap::new();
        for (number, (site, _)) in self.waiting.iter().filter(|(number, _)| **number != but) {
            counts.entry(*site).or_insert((0, Reverse(*number))).0 += 1;
        }
        let most = counts.into_iter().max_by_key(|(_, rank)| *rank);
        most.is_some_and(|(site, _)| self.end_oldest_of(site, but))
    }

    fn end_oldest_of(&mut self, site: IpAddr, but: u64) -> bool {
        let oldest = self.waiting.iter().find(|(number, (other, _))| *other == site && **number != but);
        let Some(number) = oldest.map(|(number, _)| *number) else { return false };
        // At once: until its task has ended it would be found again and again.
        if let Some((_, over)) = self.waiting.remove(&number) {
            over.cancel();
        }
        true
    }
}

impl Stranger {
    /// Ends another one, so that there is room for this one; false when there is nobody else.
    pub fn end_another(&self) -> bool {
        self.all.known.lock().end_one(self.number)
    }

    /// Returns when it has to go.
    pub async fn ended(&self) {
        self.over.cancelled().await;
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.all.known.lock().waiting.remove(&self.number);
    }
}

/// An address as strangers are counted by it: of IPv6 the network, since a machine has all of one.
fn site_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn ended(strangers: &[Stranger]) -> Vec<usize> {
        (0..strangers.len()).filter(|at| strangers[*at].over.is_cancelled()).collect()
    }

    #[test]
    fn the_oldest_of_an_address_goes_when_it_has_too_many() {
        let all = Strangers::new(10, 2);
        let here: Vec<_> = (0..4).map(|_| all.arrive(address("10.0.0.1"))).collect();
        assert_eq!(ended(&here), [0, 1]);
    }

    #[test]
    fn who_opens_many_connections_loses_them_and_not_who_opens_one() {
        let all = Strangers::new(3, 3);
        let places = ["10.0.0.9", "10.0.0.1", "10.0.0.1", "10.0.0.8", "10.0.0.7"];
        let here: Vec<_> = places.map(|place| all.arrive(address(place))).into();
        assert_eq!(ended(&here), [0, 1], "the first of two, then the first of those who are alone");
        assert_eq!(all.known.lock().waiting.len(), 3);
    }

    #[test]
    fn there_is_nobody_to_end_but_others() {
        let all = Strangers::new(3, 3);
        let first = all.arrive(address("10.0.0.1"));
        assert!(!first.end_another());
        let second = all.arrive(address("10.0.0.2"));
        assert!(second.end_another() && first.over.is_cancelled() && !second.over.is_cancelled());
        drop(second);
        assert!(all.known.lock().waiting.is_empty());
    }

    #[test]
    fn the_addresses_of_one_machine_are_one() {
        assert_eq!(site_of(address("2001:db8:1:2:3:4:5:6")), address("2001:db8:1:2::"));
        assert_eq!(site_of(address("::ffff:10.1.2.3")), address("10.1.2.3"));
    }
}

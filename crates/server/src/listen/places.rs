//! How many connections there may be, and how many of them from one address: whoever opens ever more of them leaves room for others.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::guard::caller_of;

/// How many times the places that are left an address may have: alone it comes to four of five, a second
/// one to four of five of what is left, and so on.
const SHARE: usize = 4;

/// The places of connections.
#[derive(Clone)]
pub struct Places(Arc<Mutex<State>>);

struct State {
    free: usize,
    by_caller: HashMap<u64, usize>,
}

/// A connection's place, until it is dropped.
pub struct Place {
    places: Places,
    caller: Option<u64>,
}

impl Places {
    pub fn new(most: usize) -> Self {
        Self(Arc::new(Mutex::new(State { free: most, by_caller: HashMap::new() })))
    }

    /// A place for a connection of an address, where one is left for it. Those that come from no address are of this machine, and may
    /// have all.
    pub fn take(&self, address: Option<IpAddr>) -> Option<Place> {
        let caller = address.map(caller_of);
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.free == 0 {
            return None;
        }
        if let Some(caller) = caller {
            let most = SHARE * state.free;
            let own = state.by_caller.entry(caller).or_default();
            if *own >= most {
                return None;
            }
            *own += 1;
        }
        state.free -= 1;
        Some(Place { places: self.clone(), caller })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.places.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.free += 1;
        if let Some(caller) = self.caller
            && let Some(own) = state.by_caller.get_mut(&caller)
        {
            *own -= 1;
            if *own == 0 {
                state.by_caller.remove(&caller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_takes_all_they_can_leaves_room_for_others() {
        let places = Places::new(100);
        let crowd = |last: u8| {
            let address = Some(IpAddr::from([10, 0, 0, last]));
            (0..100).map_while(|_| places.take(address)).collect::<Vec<Place>>()
        };
        let [first, second, third] = [crowd(1), crowd(2), crowd(3)];
        assert_eq!([first.len(), second.len(), third.len()], [80, 16, 4]);
        assert_eq!(crowd(4).len(), 0, "a hundred places are too few for four crowds");
        drop(first);
        assert_eq!(crowd(4).len(), 64, "four of five of what is left");
        drop((second, third));
        let state = places.0.lock().unwrap();
        assert_eq!((state.free, state.by_caller.len()), (100, 0), "every place comes back");
        drop(state);
        assert_eq!((0..200).map_while(|_| places.take(None)).collect::<Vec<Place>>().len(), 100);
    }
}

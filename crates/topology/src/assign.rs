//! Numbers that must be unique: those that the file gives, and those derived for the rest.

use std::collections::HashMap;
use std::hash::Hash;

/// Hands out each number once.
pub(crate) struct Unique<T> {
    holders: HashMap<T, String>,
    /// No number before this one is free, so a search starts here.
    next: u32,
}

impl<T: Copy + Eq + Hash> Unique<T> {
    /// `first`: the ordinal at which derived numbers start.
    pub(crate) fn from(first: u32) -> Self {
        Self { holders: HashMap::new(), next: first }
    }

    /// Gives `number` to `holder`; the error is the node that already has it.
    pub(crate) fn take(&mut self, number: T, holder: &str) -> Result<T, String> {
        match self.holders.get(&number) {
            Some(other) => Err(other.clone()),
            None => {
                self.holders.insert(number, holder.to_owned());
                Ok(number)
            }
        }
    }

    /// Lets derived numbers start at another ordinal.
    pub(crate) fn skip_to(&mut self, first: u32) {
        self.next = first;
    }

    /// Gives `holder` the first free number.
    /// `derive` makes it from an ordinal, and returns `None` once there are no more.
    pub(crate) fn next(&mut self, holder: &str, derive: impl Fn(u32) -> Option<T>) -> Option<T> {
        loop {
            let number = derive(self.next)?;
            self.next = self.next.checked_add(1)?;
            if self.take(number, holder).is_ok() {
                return Some(number);
            }
        }
    }
}

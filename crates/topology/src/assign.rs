//! Unique numbers. The file gives some of them, and the others are derived.

use std::collections::HashMap;
use std::hash::Hash;

/// Assigns each number at most once.
pub(crate) struct Unique<T> {
    holders: HashMap<T, String>,
    /// The ordinal at which the search for a free number starts. All earlier ordinals are taken or skipped.
    next: u32,
}

impl<T: Copy + Eq + Hash> Unique<T> {
    /// Creates an empty assignment. `first` is the ordinal at which derived numbers start.
    pub(crate) fn from(first: u32) -> Self {
        Self { holders: HashMap::new(), next: first }
    }

    /// Assigns `number` to `holder`. The error is the name of the node that already has the number.
    pub(crate) fn take(&mut self, number: T, holder: &str) -> Result<T, String> {
        match self.holders.get(&number) {
            Some(other) => Err(other.clone()),
            None => {
                self.holders.insert(number, holder.to_owned());
                Ok(number)
            }
        }
    }

    /// Continues derived numbers at the ordinal `first`.
    pub(crate) fn skip_to(&mut self, first: u32) {
        self.next = first;
    }

    /// Assigns the first free number to `holder`; `None` if there is none.
    /// `derive` converts an ordinal to a number, and returns `None` at the end of the numbers.
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

//! Replaces `store` in builds without the feature `journal`. Opening a store then fails.

use std::convert::Infallible;
use std::error::Error;
use std::path::Path;

use super::error::JournalError;
use super::stored::Changes;
use crate::jobs::JobKey;

#[derive(Debug)]
pub(super) struct Store(Infallible);

impl Store {
    pub(super) fn in_folder(folder: &Path) -> Result<Self, JournalError> {
        Err(JournalError::NotBuiltIn { folder: folder.to_owned() })
    }

    pub(super) fn file(&self) -> &Path {
        match self.0 {}
    }

    pub(super) fn make(&self, _: &Changes) -> Result<(), JournalError> {
        match self.0 {}
    }

    pub(super) fn close(&self) {
        match self.0 {}
    }

    pub(super) fn records(&self) -> Vec<(JobKey, Vec<u8>)> {
        match self.0 {}
    }

    pub(super) fn is_new(&self) -> bool {
        match self.0 {}
    }

    pub(super) fn damaged(&self, _: &dyn Error) -> JournalError {
        match self.0 {}
    }

    pub(super) fn cannot_write(&self, _: &dyn Error) -> JournalError {
        match self.0 {}
    }
}

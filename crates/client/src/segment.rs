//! Memory that this process shares with its agent.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use memmap2::MmapMut;
use rustix::fs::{FallocateFlags, fallocate};
use tokio::runtime::Handle;
use tonic::transport::Channel;
use tributary_api::agent::v1::agent_client::AgentClient;
use tributary_api::agent::{SegmentName, v1};

use crate::element::Element;
use crate::error::ClientError;

/// Memory that this process shares with its agent. It contains zeros at first.
/// [`Job::segment`](crate::Job::segment) and [`Training::segment`](crate::Training::segment) create it.
///
/// The system frees the memory when both processes have released it or ended, even after a crash. Dropping the segment
/// notifies the agent in the background.
#[derive(Debug)]
pub struct Segment {
    map: MmapMut,
    file: File,
    pub(crate) id: u32,
    /// True while the agent may write to the segment.
    lent: Arc<AtomicBool>,
    /// The request that releases the segment at the agent; `None` if the release was already requested.
    closer: Option<Closer>,
}

/// The request to the agent to release a segment.
#[derive(Debug)]
pub(crate) struct Closer {
    pub(crate) client: AgentClient<Channel>,
    pub(crate) request: v1::CloseSegmentRequest,
    pub(crate) runtime: Handle,
}

impl Closer {
    pub(crate) async fn close(mut self) -> Result<(), ClientError> {
        self.client.close_segment(self.request).await.map_err(ClientError::refused)?;
        Ok(())
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // A segment to which the agent may still write is released with the session.
        if let Some(closer) = self.closer.take().filter(|_| !self.is_in_use()) {
            let runtime = closer.runtime.clone();
            // If the session is already over, the agent has released the segment.
            runtime.spawn(async { drop(closer.close().await) });
        }
    }
}

/// Shared memory that this process has created.
#[derive(Debug)]
pub(crate) struct Mapped {
    map: MmapMut,
    file: File,
}

/// The agent's right to write to a segment. Dropping the loan ends the right.
#[derive(Debug)]
pub(crate) struct Loan(Option<Arc<AtomicBool>>);

impl Loan {
    /// Makes the loan permanent, so that this process never accesses the segment again.
    pub(crate) fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        if let Some(lent) = &self.0 {
            lent.store(false, Ordering::Release);
        }
    }
}

/// The name of a segment's file until the agent has opened it. Dropping this value removes the name.
#[derive(Debug)]
pub(crate) struct Named(pub(crate) SegmentName);

impl Drop for Named {
    fn drop(&mut self) {
        // An error means that the name is already removed.
        let _ = fs::remove_file(self.0.path());
    }
}

/// Creates shared memory with a name by which the agent can open it.
pub(crate) fn create(bytes: usize) -> Result<(Mapped, Named), ClientError> {
    if bytes == 0 {
        return Err(ClientError::EmptySegment);
    }
    let name = SegmentName::new(rand::random());
    let failed = |step| {
        let path = name.path();
        move |reason| ClientError::SharedMemory { step, path, reason }
    };
    let file = create_file(&name).map_err(failed("create"))?;
    let named = Named(name.clone());
    // The memory is allocated now, because a lack of memory later would end this process by SIGBUS.
    fallocate(&file, FallocateFlags::empty(), 0, bytes as u64)
        .map_err(|errno| failed("reserve")(errno.into()))?;
    let map = map(&file).map_err(failed("map"))?;
    Ok((Mapped { map, file }, named))
}

/// Creates the file of a segment and locks it. The lock shows the agent that this process lives. The
/// agent removes an unlocked file, because it takes it for the file of a dead process.
fn create_file(name: &SegmentName) -> io::Result<File> {
    loop {
        let file =
            OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(name.path())?;
        file.lock()?;
        // The agent may have removed the file before this process has locked it. Then the loop creates another file.
        if file.metadata()?.nlink() > 0 {
            return Ok(file);
        }
    }
}

#[allow(unsafe_code)]
fn map(file: &File) -> io::Result<MmapMut> {
    // SAFETY: the file is new, only this process's user owns it, and it loses its name as soon as the agent has opened
    // it. The agent writes to it only in operations that use it, while `Segment` is marked as lent, and never changes
    // its size.
    unsafe { MmapMut::map_mut(file) }
}

impl Segment {
    pub(crate) fn new(Mapped { map, file }: Mapped, id: u32, closer: Option<Closer>) -> Self {
        Self { map, file, id, lent: Arc::default(), closer }
    }

    /// Takes the closer, so that the caller requests the release.
    pub(crate) fn take_closer(&mut self) -> Option<Closer> {
        self.closer.take()
    }

    /// Lets the agent write to the segment until the loan is dropped.
    ///
    /// # Errors
    /// [`ClientError::SegmentInUse`] if the agent may already write to it.
    pub(crate) fn lend(&mut self) -> Result<Loan, ClientError> {
        match self.lent.swap(true, Ordering::AcqRel) {
            true => Err(ClientError::SegmentInUse),
            false => Ok(Loan(Some(Arc::clone(&self.lent)))),
        }
    }

    /// Returns true if an operation on the segment has no answer yet.
    pub fn is_in_use(&self) -> bool {
        self.lent.load(Ordering::Acquire)
    }

    /// Returns the size in bytes.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Returns false, because a segment has at least one byte.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Returns all whole elements, from the segment's beginning.
    ///
    /// # Errors
    /// [`ClientError::SegmentInUse`] if the agent may write to the segment.
    pub fn elements<T: Element>(&self) -> Result<&[T], ClientError> {
        self.check_own()?;
        let whole = self.map.len() / size_of::<T>() * size_of::<T>();
        Ok(bytemuck::cast_slice(self.map.get(..whole).unwrap_or_default()))
    }

    /// Returns the elements for writing; see [`elements`](Self::elements).
    ///
    /// # Errors
    /// [`ClientError::SegmentInUse`] if the agent may write to the segment.
    pub fn elements_mut<T: Element>(&mut self) -> Result<&mut [T], ClientError> {
        self.check_own()?;
        let whole = self.map.len() / size_of::<T>() * size_of::<T>();
        Ok(bytemuck::cast_slice_mut(self.map.get_mut(..whole).unwrap_or_default()))
    }

    /// Returns all bytes of the segment.
    ///
    /// # Errors
    /// [`ClientError::SegmentInUse`] if the agent may write to the segment.
    pub fn bytes(&self) -> Result<&[u8], ClientError> {
        self.check_own()?;
        Ok(&self.map)
    }

    /// Returns the bytes for writing; see [`bytes`](Self::bytes).
    ///
    /// # Errors
    /// [`ClientError::SegmentInUse`] if the agent may write to the segment.
    pub fn bytes_mut(&mut self) -> Result<&mut [u8], ClientError> {
        self.check_own()?;
        Ok(&mut self.map)
    }

    fn check_own(&self) -> Result<(), ClientError> {
        if self.is_in_use() { Err(ClientError::SegmentInUse) } else { Ok(()) }
    }
}

/// The file descriptor is for a runtime that maps the memory itself, as Python's runtime does. The
/// runtime must not access the memory while it [is in use](Segment::is_in_use).
impl AsFd for Segment {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_maps_another_opens_until_its_name_goes() {
        let (mut mapped, named) = create(16).unwrap();
        mapped.map[..4].copy_from_slice(&7_i32.to_ne_bytes());
        let path = named.0.path();
        assert_eq!(fs::read(&path).unwrap()[..4], 7_i32.to_ne_bytes());
        drop(named);
        assert!(!path.exists());
        assert_eq!(Segment::new(mapped, 0, None).elements::<i32>().unwrap(), [7, 0, 0, 0]);
    }

    #[test]
    fn only_whole_elements_are_seen() {
        let (mapped, _named) = create(7).unwrap();
        let mut segment = Segment::new(mapped, 0, None);
        assert_eq!((segment.len(), segment.elements::<f32>().unwrap().len()), (7, 1));
        assert_eq!(segment.elements_mut::<half::f16>().unwrap().len(), 3);
    }

    #[test]
    fn a_segment_that_the_agent_may_write_to_is_not_looked_at() {
        let (mapped, _named) = create(8).unwrap();
        let mut segment = Segment::new(mapped, 0, None);
        let loan = segment.lend().unwrap();
        assert!(matches!(segment.elements::<i32>(), Err(ClientError::SegmentInUse)));
        assert!(matches!(segment.elements_mut::<i32>(), Err(ClientError::SegmentInUse)));
        assert!(matches!(segment.lend(), Err(ClientError::SegmentInUse)));
        drop(loan);
        assert!(segment.elements_mut::<i32>().is_ok());
        segment.lend().unwrap().keep();
        assert!(segment.is_in_use());
    }

    #[test]
    fn memory_that_is_not_there_is_an_error() {
        assert!(matches!(create(0), Err(ClientError::EmptySegment)));
        assert!(matches!(create(1 << 60), Err(ClientError::SharedMemory { .. })));
    }
}

//! The functions of `include/tributary.h`. They check pointers, and no panic leaves them.

#![allow(unsafe_code, reason = "C calls these functions with pointers")]
#![allow(clippy::missing_safety_doc, reason = "the header documents the functions")]

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::ptr;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use tributary_client::Waiting;

use crate::error::{Error, Kind, OK, last_text};
use crate::job::{Job, Terms};
use crate::request::{Arguments, Request, Wanted};
use crate::runtime::{check_not_forked, runtime};

/// The header's `TRIBUTARY_INT32`.
const INT32: u32 = 6;

type JobHandle = Arc<Job>;
type WaitingFunction = unsafe extern "C" fn(*const c_char, *mut c_void);

/// The header's `tributary_options`.
#[repr(C)]
pub(crate) struct Options {
    size: usize,
    job: *const c_char,
    token_file: *const c_char,
    socket: *const c_char,
    process: u32,
    processes: u32,
    new_run: c_int,
    join_milliseconds: u64,
    deadline_milliseconds: u64,
    waiting: Option<WaitingFunction>,
    context: *mut c_void,
}

/// A pointer of the caller, for the caller's own function.
struct ContextPointer(*mut c_void);

// SAFETY: the library only passes the pointer to the caller's function. The header says that another thread calls it.
unsafe impl Send for ContextPointer {}
// SAFETY: as above.
unsafe impl Sync for ContextPointer {}

impl ContextPointer {
    fn get(&self) -> *mut c_void {
        self.0
    }
}

/// Calls `body`, and reports its error to this thread.
fn guarded(body: impl FnOnce() -> Result<(), Error>) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => OK,
        Ok(Err(error)) => error.report(),
        Err(_) => {
            let text =
                "libtributary has failed by a defect, which it has printed: report it, and leave the job";
            Error::new(Kind::Other, text).report()
        }
    }
}

/// Returns a string of the caller; `None` for NULL.
unsafe fn text<'a>(string: *const c_char, what: &str) -> Result<Option<&'a str>, Error> {
    if string.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller passes strings that end with NUL and live during the call.
    let string = unsafe { CStr::from_ptr(string) };
    string.to_str().map(Some).map_err(|_| Error::argument(format!("{what} is not UTF-8")))
}

unsafe fn path(string: *const c_char) -> Option<PathBuf> {
    // SAFETY: the caller passes strings that end with NUL and live during the call.
    let bytes = (!string.is_null()).then(|| unsafe { CStr::from_ptr(string) }.to_bytes())?;
    Some(OsStr::from_bytes(bytes).into())
}

/// Returns the job of a handle.
unsafe fn borrow<'a>(job: *const JobHandle) -> Result<&'a JobHandle, Error> {
    // SAFETY: handles come from `tributary_join`, and the caller frees none while it uses it.
    let job = unsafe { job.as_ref() };
    let job = job.ok_or_else(|| Error::argument("the job is NULL: join one by tributary_join"))?;
    check_not_forked()?;
    Ok(job)
}

/// Returns a place for a result.
unsafe fn place<'a, T>(pointer: *mut T, what: &str) -> Result<&'a mut T, Error> {
    // SAFETY: the caller passes a valid pointer or NULL.
    unsafe { pointer.as_mut() }.ok_or_else(|| Error::argument(format!("the pointer for {what} is NULL")))
}

#[unsafe(no_mangle)]
extern "C" fn tributary_error_message() -> *const c_char {
    last_text()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tributary_join(options: *const Options, job: *mut *mut JobHandle) -> c_int {
    guarded(|| {
        // SAFETY: the caller passes a valid pointer or NULL.
        let to = unsafe { place(job, "the job") }?;
        *to = ptr::null_mut();
        // SAFETY: the caller passes options or NULL.
        let (terms, waiting) = unsafe { read(options) }?;
        *to = Box::into_raw(Box::new(Job::join(terms, waiting)?));
        Ok(())
    })
}

/// Returns the terms of the caller's options, and its function for reports of waits.
///
/// # Safety
/// `options` is NULL or points to options, as the header demands.
unsafe fn read(
    options: *const Options,
) -> Result<(Terms, Option<impl Fn(&Waiting) + Send + Sync + 'static>), Error> {
    // SAFETY: the size is the first field in all versions of the struct.
    let size = (!options.is_null()).then(|| unsafe { options.cast::<usize>().read() });
    if size.is_some_and(|size| size != size_of::<Options>()) {
        let text = "the options have another size than this version's: set `size` to sizeof(tributary_options), and \
                    compile the program with this version's tributary.h";
        return Err(Error::argument(text));
    }
    // SAFETY: the struct has this version's size.
    let options = unsafe { options.as_ref() };
    let terms = match options {
        None => Terms::default(),
        Some(options) => Terms {
            // SAFETY: the caller passes strings or NULL.
            job: unsafe { text(options.job, "the job's name") }?.map(str::to_owned),
            // SAFETY: as above.
            token_file: unsafe { path(options.token_file) },
            // SAFETY: as above.
            socket: unsafe { path(options.socket) },
            process: (options.processes > 0).then_some((options.process, options.processes)),
            new_run: options.new_run != 0,
            patience: milliseconds(options.join_milliseconds),
            deadline: milliseconds(options.deadline_milliseconds),
        },
    };
    let waiting = options.and_then(|options| {
        let (call, context) = (options.waiting?, ContextPointer(options.context));
        Some(move |waiting: &Waiting| {
            let what = CString::new(waiting.to_string()).unwrap_or_default();
            // SAFETY: the caller has passed this function for this pointer.
            unsafe { call(what.as_ptr(), context.get()) };
        })
    });
    Ok((terms, waiting))
}

fn milliseconds(milliseconds: u64) -> Option<Duration> {
    (milliseconds > 0).then(|| Duration::from_millis(milliseconds))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tributary_join_group(
    job: *mut JobHandle,
    group: *const c_char,
    ranks: *const u32,
    count: usize,
    options: *const Options,
    joined: *mut *mut JobHandle,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller passes valid pointers or NULL.
        let (job, to) = unsafe { (borrow(job)?, place(joined, "the joined job")?) };
        *to = ptr::null_mut();
        // SAFETY: the caller passes a string or NULL.
        let group = unsafe { text(group, "the group's id") }?;
        let group = group.ok_or_else(|| Error::argument("the group's id is NULL"))?;
        if ranks.is_null() {
            return Err(Error::argument("the group's ranks are NULL"));
        }
        // SAFETY: the caller passes `count` ranks.
        let ranks = unsafe { slice::from_raw_parts(ranks, count) }.to_vec();
        // SAFETY: the caller passes options or NULL.
        let (terms, waiting) = unsafe { read(options) }?;
        let terms = Terms { job: Some(job.open_group(group, ranks)?), ..terms };
        *to = Box::into_raw(Box::new(Job::join(terms, waiting)?));
        Ok(())
    })
}

/// Ends this process's part in a job, and frees the handle.
unsafe fn end(
    job: *mut JobHandle,
    by: impl FnOnce(tributary_client::Job) -> Result<(), Error>,
) -> Result<(), Error> {
    // SAFETY: the caller passes a handle or NULL.
    unsafe { borrow(job) }?;
    // SAFETY: the handle comes from `tributary_join`, and the caller does not use it any more.
    let job = unsafe { Box::from_raw(job) };
    by(job.client.clone())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tributary_close(job: *mut JobHandle) -> c_int {
    let close =
        |job: tributary_client::Job| runtime()?.block_on(job.close()).map_err(|error| Error::calling(&error));
    // SAFETY: the caller passes a handle or NULL.
    guarded(|| unsafe { end(job, close) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tributary_finish(job: *mut JobHandle) -> c_int {
    let finish = |job: tributary_client::Job| {
        runtime()?.block_on(job.finish()).map_err(|error| Error::calling(&error))
    };
    // SAFETY: the caller passes a handle or NULL.
    guarded(|| unsafe { end(job, finish) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tributary_leave(job: *mut JobHandle) -> c_int {
    // SAFETY: the caller passes a handle or NULL. The host leaves when the last reference is dropped.
    guarded(|| unsafe { end(job, |_| Ok(())) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tributary_rank(job: *const JobHandle) -> u32 {
    // SAFETY: the caller passes a handle or NULL.
    unsafe { job.as_ref() }.map_or(0, |job| job.client.rank())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tributary_size(job: *const JobHandle) -> u32 {
    // SAFETY: the caller passes a handle or NULL.
    unsafe { job.as_ref() }.map_or(0, |job| u32::try_from(job.ranks.len()).unwrap_or(u32::MAX))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tributary_host(job: *const JobHandle) -> *const c_char {
    // SAFETY: the caller passes a handle or NULL.
    unsafe { job.as_ref() }.map_or(ptr::null(), |job| job.host.as_ptr())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tributary_alloc(job: *mut JobHandle, bytes: usize, memory: *mut *mut c_void) -> c_int {
    guarded(|| {
        // SAFETY: the caller passes valid pointers or NULL.
        let (job, to) = unsafe { (borrow(job)?, place(memory, "the memory")?) };
        *to = ptr::null_mut();
        *to = job.memory.allocate(&job.client, bytes)?.cast();
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tributary_free(job: *mut JobHandle, memory: *mut c_void) -> c_int {
    guarded(|| match memory.is_null() {
        true => Ok(()),
        // SAFETY: the caller passes a handle or NULL.
        false => unsafe { borrow(job) }?.memory.free(memory.addr()),
    })
}

/// An operation as the caller describes it.
struct Call {
    job: *mut JobHandle,
    name: *const c_char,
    values: *const c_void,
    sums: *mut c_void,
    count: usize,
    element_type: u32,
    wanted: Wanted,
}

impl Call {
    /// Starts the operation.
    ///
    /// # Safety
    /// The pointers are NULL or as the header demands.
    unsafe fn start(self) -> Result<Request, Error> {
        let Self { job, name, values, sums, count, element_type, wanted } = self;
        // SAFETY: the caller passes a handle or NULL.
        let job = unsafe { borrow(job) }?;
        // SAFETY: the caller passes a string or NULL.
        let name = unsafe { text(name, "the operation's name") }?.unwrap_or("unnamed");
        let (values, sums) = (values.cast(), sums.cast());
        // SAFETY: the caller passes memory for all elements, as the header demands.
        unsafe { Request::start(job, Arguments { name, values, sums, count, element_type }, wanted) }
    }

    /// Starts the operation, and waits for its end.
    unsafe fn run(self, contributors: *mut u32) -> c_int {
        guarded(|| {
            // SAFETY: the pointers are as `start` demands.
            let mut request = unsafe { self.start() }?;
            let result = request.wait();
            // SAFETY: the caller's memory is valid during the call.
            unsafe { finish(request, result, contributors) }
        })
    }

    /// Starts the operation, and gives the caller a handle for its end.
    unsafe fn begin(self, request: *mut *mut Request) -> c_int {
        guarded(|| {
            // SAFETY: the caller passes a valid pointer or NULL.
            let to = unsafe { place(request, "the request") }?;
            *to = ptr::null_mut();
            // SAFETY: the pointers are as `start` demands.
            *to = Box::into_raw(Box::new(unsafe { self.start() }?));
            Ok(())
        })
    }
}

/// Writes the result of an operation to the caller's memory.
unsafe fn finish(
    request: Request,
    result: Result<tributary_client::Reduced, tributary_client::ClientError>,
    contributors: *mut u32,
) -> Result<(), Error> {
    // SAFETY: the caller passes a valid pointer or NULL, and keeps its memory until the end.
    let (to, number) = unsafe { (contributors.as_mut(), request.end(result, !contributors.is_null())?) };
    if let Some(to) = to {
        *to = number;
    }
    Ok(())
}

fn all_reduce(
    job: *mut JobHandle,
    name: *const c_char,
    (values, sums): (*const c_void, *mut c_void),
    (count, element_type): (usize, u32),
    wanted: Wanted,
) -> Call {
    Call { job, name, values, sums, count, element_type, wanted }
}

fn broadcast(job: *mut JobHandle, name: *const c_char, data: *mut c_void, bytes: usize, root: u32) -> Call {
    all_reduce(job, name, (data, data), (bytes, INT32), Wanted::Of(root))
}

/// Returns an all-reduce without elements, which takes one round trip.
fn barrier(job: *mut JobHandle) -> Call {
    static NOTHING: i32 = 0;
    let values = &raw const NOTHING;
    let memory = (values.cast(), values.cast_mut().cast());
    all_reduce(job, c"barrier".as_ptr(), memory, (0, INT32), Wanted::End)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tributary_all_reduce(
    job: *mut JobHandle,
    name: *const c_char,
    values: *const c_void,
    sums: *mut c_void,
    count: usize,
    element_type: u32,
    contributors: *mut u32,
) -> c_int {
    let call = all_reduce(job, name, (values, sums), (count, element_type), Wanted::All);
    // SAFETY: the caller's pointers are as the header demands.
    unsafe { call.run(contributors) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tributary_reduce_scatter(
    job: *mut JobHandle,
    name: *const c_char,
    values: *const c_void,
    part: *mut c_void,
    count: usize,
    element_type: u32,
    contributors: *mut u32,
) -> c_int {
    let call = all_reduce(job, name, (values, part), (count, element_type), Wanted::Part);
    // SAFETY: the caller's pointers are as the header demands.
    unsafe { call.run(contributors) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tributary_broadcast(
    job: *mut JobHandle,
    name: *const c_char,
    data: *mut c_void,
    bytes: usize,
    root: u32,
) -> c_int {
    // SAFETY: the caller's pointers are as the header demands.
    unsafe { broadcast(job, name, data, bytes, root).run(ptr::null_mut()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tributary_barrier(job: *mut JobHandle, contributors: *mut u32) -> c_int {
    // SAFETY: the integer lives permanently, and the sum is not written.
    unsafe { barrier(job).run(contributors) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tributary_start_all_reduce(
    job: *mut JobHandle,
    name: *const c_char,
    values: *const c_void,
    sums: *mut c_void,
    count: usize,
    element_type: u32,
    request: *mut *mut Request,
) -> c_int {
    let call = all_reduce(job, name, (values, sums), (count, element_type), Wanted::All);
    // SAFETY: the caller's pointers are as the header demands.
    unsafe { call.begin(request) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tributary_start_reduce_scatter(
    job: *mut JobHandle,
    name: *const c_char,
    values: *const c_void,
    part: *mut c_void,
    count: usize,
    element_type: u32,
    request: *mut *mut Request,
) -> c_int {
    let call = all_reduce(job, name, (values, part), (count, element_type), Wanted::Part);
    // SAFETY: the caller's pointers are as the header demands.
    unsafe { call.begin(request) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tributary_start_broadcast(
    job: *mut JobHandle,
    name: *const c_char,
    data: *mut c_void,
    bytes: usize,
    root: u32,
    request: *mut *mut Request,
) -> c_int {
    // SAFETY: the caller's pointers are as the header demands.
    unsafe { broadcast(job, name, data, bytes, root).begin(request) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tributary_start_barrier(job: *mut JobHandle, request: *mut *mut Request) -> c_int {
    // SAFETY: as for `tributary_barrier`.
    unsafe { barrier(job).begin(request) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tributary_wait(request: *mut *mut Request, contributors: *mut u32) -> c_int {
    // SAFETY: the caller's pointers are as the header demands.
    unsafe { collect(request, contributors, |request| Some(request.wait())) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tributary_test(
    request: *mut *mut Request,
    done: *mut c_int,
    contributors: *mut u32,
) -> c_int {
    // SAFETY: the caller's pointers are as the header demands.
    unsafe {
        if let Some(done) = done.as_mut() {
            *done = 0;
        }
        collect(request, contributors, |request| {
            let result = request.poll()?;
            if let Some(done) = done.as_mut() {
                *done = 1;
            }
            Some(result)
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tributary_abandon(request: *mut *mut Request) {
    let abandon = || {
        check_not_forked()?;
        // SAFETY: the caller passes a valid pointer or NULL.
        let handle = unsafe { place(request, "the request") }?;
        if !handle.is_null() {
            // SAFETY: requests come from this library, which sets the caller's pointer to NULL when it frees one.
            drop(unsafe { Box::from_raw(std::mem::replace(handle, ptr::null_mut())) });
        }
        Ok(())
    };
    guarded(abandon);
}

/// Ends a request and frees it if `result` returns its result.
unsafe fn collect(
    request: *mut *mut Request,
    contributors: *mut u32,
    result: impl FnOnce(&mut Request) -> Option<Result<tributary_client::Reduced, tributary_client::ClientError>>,
) -> c_int {
    guarded(|| {
        check_not_forked()?;
        // SAFETY: the caller passes a valid pointer or NULL.
        let handle = unsafe { place(request, "the request") }?;
        // SAFETY: requests come from this library, which sets the caller's pointer to NULL when it frees one.
        let pending = unsafe { handle.as_mut() };
        let pending = pending.ok_or_else(|| Error::argument("the request is NULL: it has already ended"))?;
        let Some(result) = result(pending) else { return Ok(()) };
        // SAFETY: as above.
        let pending = unsafe { Box::from_raw(std::mem::replace(handle, ptr::null_mut())) };
        // SAFETY: the caller keeps its memory until the request has ended.
        unsafe { finish(*pending, result, contributors) }
    })
}

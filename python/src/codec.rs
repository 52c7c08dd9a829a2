//! Codecs, by their names. Values are passed as buffers of f32, and codes as bytes.
#![allow(clippy::needless_pass_by_value, reason = "what Python hands over")]

use parking_lot::{Mutex, MutexGuard};
use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::{PyBufferError, PyMemoryError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tributary_codec::{Kind, Residual, Sketch};

use crate::error::codec_error;

/// The encoder of one worker.
#[pyclass(frozen, module = "tributary._native")]
pub(crate) struct Codec {
    kind: Kind,
    codec: Mutex<Box<dyn tributary_codec::Codec>>,
}

impl Codec {
    fn lock(&self) -> MutexGuard<'_, Box<dyn tributary_codec::Codec>> {
        // A panic while encoding leaves the encoder valid, because its error feedback is unchanged.
        self.codec.lock()
    }
}

#[pymethods]
impl Codec {
    #[new]
    fn new(name: &str, seed: u64) -> PyResult<Self> {
        let kind: Kind = name.parse().map_err(|error| PyValueError::new_err(format!("{error}")))?;
        Ok(Self { kind, codec: Mutex::new(kind.codec(seed)) })
    }

    /// The name of the codec.
    #[getter]
    fn name(&self) -> String {
        self.kind.to_string()
    }

    /// The residual of error feedback, as f32; `None` if the codec has none.
    #[getter]
    fn owed<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        let owed = py.detach(|| self.lock().residual().map(|residual| residual.owed().to_vec()))?;
        (!owed.is_empty()).then(|| bytes(py, owed.iter().map(|value| value.to_ne_bytes())))
    }

    /// Sets the residual of error feedback.
    fn owe(&self, py: Python<'_>, values: PyBuffer<f32>) -> PyResult<()> {
        let values = copied(py, &values)?;
        let is_taken = py.detach(|| match self.lock().residual() {
            Some(residual) => {
                *residual = Residual::new(values);
                true
            }
            None => false,
        });
        match is_taken {
            true => Ok(()),
            false => Err(codec_error(py, &format!("{} has no error feedback, and owes nothing", self.kind))),
        }
    }

    /// Encodes a gradient.
    fn encode<'py>(&self, py: Python<'py>, gradient: PyBuffer<f32>) -> PyResult<Bound<'py, PyBytes>> {
        let gradient = copied(py, &gradient)?;
        let code = py.detach(|| self.lock().encode(&gradient));
        Ok(PyBytes::new(py, &code.map_err(|error| codec_error(py, &error))?))
    }

    /// Returns the sketch that workers must sum before they can encode, as i32; `None` if the codec needs
    /// none.
    fn propose<'py>(
        &self,
        py: Python<'py>,
        gradient: PyBuffer<f32>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let gradient = copied(py, &gradient)?;
        let sketch = py.detach(|| self.lock().propose(&gradient)).map_err(|error| codec_error(py, &error))?;
        Ok(sketch.map(|sketch| bytes(py, sketch.lanes().iter().map(|lane| lane.to_ne_bytes()))))
    }

    /// Accepts the sum of all workers' sketches.
    fn agree(&self, py: Python<'_>, total: PyBuffer<i32>) -> PyResult<()> {
        let lanes = copied(py, &total)?;
        let agreed = py.detach(|| Sketch::from_lanes(lanes).and_then(|sum| self.lock().agree(&sum)));
        agreed.map_err(|error| codec_error(py, &error))
    }
}

/// Writes the values of a code to `out`. The code must contain as many values as `out`.
#[pyfunction]
pub(crate) fn decode(py: Python<'_>, code: &[u8], out: PyBuffer<f32>) -> PyResult<()> {
    let mut values = zeros(out.item_count())?;
    py.detach(|| tributary_codec::decode_into(code, &mut values)).map_err(|error| codec_error(py, &error))?;
    if out.readonly() {
        return Err(PyBufferError::new_err("the array is read-only: give one that can be written to"));
    }
    out.copy_from_slice(py, &values)
}

/// Returns the values of a buffer.
fn copied<T: Element + Default>(py: Python<'_>, buffer: &PyBuffer<T>) -> PyResult<Vec<T>> {
    let mut values = zeros(buffer.item_count())?;
    buffer.copy_to_slice(py, &mut values)?;
    Ok(values)
}

/// Allocates `count` zeros, or raises MemoryError. An ordinary allocation that fails would end the
/// process.
fn zeros<T: Default + Clone>(count: usize) -> PyResult<Vec<T>> {
    let mut values = Vec::new();
    let no_memory = |_| PyMemoryError::new_err(format!("there is no memory for {count} values"));
    values.try_reserve_exact(count).map_err(no_memory)?;
    values.resize(count, T::default());
    Ok(values)
}

fn bytes<'py, const N: usize>(py: Python<'py>, words: impl Iterator<Item = [u8; N]>) -> Bound<'py, PyBytes> {
    let bytes: Vec<u8> = words.flatten().collect();
    PyBytes::new(py, &bytes)
}

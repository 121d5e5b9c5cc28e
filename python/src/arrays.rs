//! NumPy's arrays and ours. The Python half hands over C-contiguous arrays of the right dtype and number of axes; what is
//! wrong otherwise is an error there, with a line that a person understands.

use numpy::{IntoPyArray, PyArrayMethods, PyReadonlyArray2, PyReadonlyArray4, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyAny;
use qcs::problem::Matrix;
use qcs::{Error, ImageShape, Images};

use crate::errors::raised;

/// A shape by its sides C, H, W.
pub const fn of_sides([channels, height, width]: [usize; 3]) -> ImageShape {
    ImageShape::new(channels, height, width)
}

/// Images, `[B, C, H, W]` of f32, copied.
pub fn images(array: &PyReadonlyArray4<'_, f32>) -> PyResult<Images> {
    let &[_, c, h, w] = array.shape() else {
        unreachable!("four axes")
    };
    if array.len() == 0 {
        return Err(raised(Error::usage("there are no pixels: an axis of the images is 0")));
    }
    Ok(Images::new(of_sides([c, h, w]), array.as_slice()?.to_vec()))
}

/// A matrix of f32 or f64, copied in its own precision.
pub fn matrix(array: &Bound<'_, PyAny>) -> PyResult<Matrix> {
    if let Ok(single) = array.extract::<PyReadonlyArray2<'_, f32>>() {
        let &[rows, cols] = single.shape() else {
            unreachable!("two axes")
        };
        return Matrix::from_f32(rows, cols, single.as_slice()?.to_vec()).map_err(raised);
    }
    let double = array.extract::<PyReadonlyArray2<'_, f64>>()?;
    let &[rows, cols] = double.shape() else {
        unreachable!("two axes")
    };
    Matrix::from_f64(rows, cols, double.as_slice()?.to_vec()).map_err(raised)
}

/// `[B, C, H, W]`, without a copy.
pub fn of_images(py: Python<'_>, images: Images) -> PyResult<Bound<'_, PyAny>> {
    let ImageShape {
        channels,
        height,
        width,
    } = images.shape;
    let count = images.count();
    shaped(py, images.data, &[count, channels, height, width])
}

/// Values in row-major order, without a copy.
pub fn shaped<'py, T: numpy::Element>(py: Python<'py>, values: Vec<T>, shape: &[usize]) -> PyResult<Bound<'py, PyAny>> {
    Ok(values.into_pyarray(py).reshape(shape)?.into_any())
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Python package `ample`: scans, snapshots and results as Arrow tables, simulations from a
//! notebook. What is here is the border alone; `python/ample` makes the package of it.

mod results;
mod scan;
mod simulate;
mod sweep;
mod table;
mod work;

use pyo3::prelude::*;

/// The module `ample._ample`.
#[pymodule(name = "_ample")]
mod extension {
    #[pymodule_export]
    use super::results::{PyResultRecord, result, results};
    #[pymodule_export]
    use super::scan::{PyScan, read_snapshot, scan};
    #[pymodule_export]
    use super::simulate::{PyFleet, PyRun, experiments, run_experiment, simulate_server};
    #[pymodule_export]
    use super::sweep::{PySweep, sweep_parameters};
    #[pymodule_export]
    use super::table::ArrowTable;
    #[pymodule_export]
    use super::work::AmpleError;
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Offsets of fields by name, from the kernel's type information.

use crate::HostError;
use libbpf_rs::btf::types::{MemberAttr, Struct, Union};
use libbpf_rs::btf::{Btf, BtfType, HasSize, TypeId};
use std::collections::HashMap;

/// The kernel's types.
pub struct KernelTypes {
    btf: Btf<'static>,
    known: HashMap<&'static str, Option<u64>>,
}

impl KernelTypes {
    /// Reads the type information of the running kernel.
    pub fn read() -> Result<KernelTypes, HostError> {
        let btf = Btf::from_vmlinux()
            .map_err(|error| HostError::Bpf(format!("cannot read the kernel's types: {error}")))?;
        Ok(KernelTypes {
            btf,
            known: HashMap::new(),
        })
    }

    /// Offset of `type.field.field` in bytes, if the kernel has it.
    pub fn offset(&mut self, path: &'static str) -> Option<u64> {
        let btf = &self.btf;
        *self.known.entry(path).or_insert_with(|| {
            let (name, fields) = path.split_once('.')?;
            let own: Struct<'_> = btf.type_by_name(name)?;
            let mut at = (own.type_id(), 0);
            for field in fields.split('.') {
                let (inner, bits) = member(btf, at.0, field)?;
                at = (inner, at.1 + bits);
            }
            Some(at.1 / 8)
        })
    }

    /// Bytes of a structure, if the kernel has it.
    pub fn size(&self, name: &str) -> Option<u64> {
        let own: Struct<'_> = self.btf.type_by_name(name)?;
        Some(own.size() as u64)
    }
}

/// Type and offset in bits of a field of a structure or union, also inside nameless ones.
fn member(btf: &Btf<'static>, of: TypeId, name: &str) -> Option<(TypeId, u64)> {
    let own: BtfType<'_> = btf.type_by_id(of)?;
    let own = own.skip_mods_and_typedefs();
    let mut members: Vec<(Option<String>, TypeId, u64)> = Vec::new();
    let bits = |attr: MemberAttr| match attr {
        MemberAttr::Normal { offset } | MemberAttr::BitField { offset, .. } => u64::from(offset),
    };
    let text = |name: Option<&std::ffi::OsStr>| Some(name?.to_str()?.to_string());
    if let Ok(own) = Struct::try_from(own) {
        members.extend(own.iter().map(|m| (text(m.name), m.ty, bits(m.attr))));
    } else if let Ok(own) = Union::try_from(own) {
        members.extend(own.iter().map(|m| (text(m.name), m.ty, bits(m.attr))));
    }
    members.into_iter().find_map(|(own, ty, at)| match own {
        Some(own) if own == name => Some((ty, at)),
        Some(own) if !own.is_empty() => None,
        _ => member(btf, ty, name).map(|(ty, inner)| (ty, at + inner)),
    })
}

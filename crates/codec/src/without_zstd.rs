//! Zstandard in a build without the feature `zstd`: nothing compresses, and stored blocks are refused by
//! name before they come here.

use crate::decompress::DecodeError;
use crate::dictionary::{DictionaryDecoder, DictionaryEncoder};
use crate::kind::id;
use std::convert::Infallible;
use std::marker::PhantomData;
use std::num::NonZeroU32;

/// A dictionary prepared to compress with: there is none.
pub(crate) struct CDict<'a>(Infallible, PhantomData<&'a ()>);

/// A dictionary prepared to decompress with: there is none.
pub(crate) struct DDict<'a>(Infallible, PhantomData<&'a ()>);

macro_rules! never_made {
    ($($name:ident),*) => {$(
        impl $name<'_> {
            pub(crate) fn get_dict_id(&self) -> Option<NonZeroU32> {
                match self.0 {}
            }

            pub(crate) fn sizeof(&self) -> usize {
                match self.0 {}
            }
        }
    )*};
}

never_made!(CDict, DDict);

impl CDict<'static> {
    pub(crate) fn try_create(_: &[u8], _: i32) -> Option<CDict<'static>> {
        None
    }
}

impl DDict<'static> {
    pub(crate) fn try_create(_: &[u8]) -> Option<DDict<'static>> {
        None
    }
}

pub(crate) fn train(_: &[u8], _: &[usize], _: usize) -> Option<Vec<u8>> {
    None
}

pub(crate) fn compress(_: i32, _: &[u8], _: &mut [u8]) -> Option<usize> {
    None
}

pub(crate) fn compress_with(dictionary: &DictionaryEncoder, _: &[u8], _: &mut [u8]) -> Option<usize> {
    dictionary.prepared().get_dict_id().map(|_| 0)
}

pub(crate) fn decompress(_: &[u8], _: &mut [u8]) -> Result<usize, DecodeError> {
    Err(DecodeError::missing(id::ZSTD))
}

pub(crate) fn decompress_with(
    dictionary: &DictionaryDecoder,
    _: &[u8],
    _: &mut [u8],
) -> Result<usize, DecodeError> {
    dictionary.prepared().get_dict_id();
    Err(DecodeError::missing(id::ZSTD_DICTIONARY))
}

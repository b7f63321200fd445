//! What the typesetter can see: one template, the shared base, the data and the fonts. Nothing else exists for it.

use std::sync::LazyLock;

use typst::diag::{FileError, FileResult};
use typst::foundations::{Bytes, Datetime, Duration};
use typst::syntax::{FileId, RootedPath, Source, VirtualPath, VirtualRoot};
use typst::text::{Font, FontBook};
use typst::utils::LazyHash;
use typst::{Library, LibraryExt, World};

use crate::error::RenderError;
use crate::fonts::FONTS;

/// Page set-up and letterhead that all document types share.
const BASE: &str = include_str!("../templates/base.typ");

static LIBRARY: LazyLock<LazyHash<Library>> = LazyLock::new(|| LazyHash::new(Library::default()));

/// The world of one render.
pub(crate) struct TemplateWorld {
    template: Source,
    base: Source,
    data_id: FileId,
    data: Bytes,
}

impl TemplateWorld {
    /// `view` is the JSON that the template reads as `data.json`.
    pub(crate) fn new(template: &str, view: String) -> Result<Self, RenderError> {
        Ok(Self {
            template: Source::new(file_id("/main.typ")?, template.to_owned()),
            base: Source::new(file_id("/base.typ")?, BASE.to_owned()),
            data_id: file_id("/data.json")?,
            data: Bytes::from_string(view),
        })
    }
}

/// The engine keeps every id for ever, so there must only be these few names.
fn file_id(path: &'static str) -> Result<FileId, RenderError> {
    let path = VirtualPath::new(path).map_err(|error| RenderError::Typesetting { message: error.to_string() })?;
    Ok(RootedPath::new(VirtualRoot::Project, path).intern())
}

impl World for TemplateWorld {
    fn library(&self) -> &LazyHash<Library> {
        &LIBRARY
    }

    fn book(&self) -> &LazyHash<FontBook> {
        &FONTS.book
    }

    fn main(&self) -> FileId {
        self.template.id()
    }

    fn source(&self, id: FileId) -> FileResult<Source> {
        [&self.template, &self.base]
            .into_iter()
            .find(|source| source.id() == id)
            .cloned()
            .ok_or(FileError::AccessDenied)
    }

    fn file(&self, id: FileId) -> FileResult<Bytes> {
        if id == self.data_id { Ok(self.data.clone()) } else { Err(FileError::AccessDenied) }
    }

    fn font(&self, index: usize) -> Option<Font> {
        FONTS.get(index)
    }

    /// No clock: a document that showed the day it was rendered would differ from render to render.
    fn today(&self, _offset: Option<Duration>) -> Option<Datetime> {
        None
    }
}

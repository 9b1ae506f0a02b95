package document

// Docs is where the documentation is published; the name of a page below docs/ follows. Programs print such links and
// no paths of files, because their users may not have the repository.
const Docs = "https://github.com/tenon-numa/tenon/blob/main/docs/"

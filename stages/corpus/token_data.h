#pragma once

// From text to microbatches: tokenizer, token files, and which samples a step uses.
#include "stages/corpus/data/corpus_count.h"
#include "stages/corpus/data/corpus_encoder.h"
#include "stages/corpus/data/data_feed.h"
#include "stages/corpus/data/document_batches.h"
#include "stages/corpus/data/file_kind.h"
#include "stages/corpus/data/indexed_dataset.h"
#include "stages/corpus/data/text_files.h"
#include "stages/corpus/data/token_cache.h"
#include "stages/corpus/data/token_cache_pruning.h"
#include "stages/corpus/data/token_file.h"
#include "stages/corpus/data/token_scan.h"
#include "stages/corpus/tokenizers/tokenizer.h"
#include "stages/corpus/tokenizers/utf8.h"

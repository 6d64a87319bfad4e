#pragma once

// From text to microbatches: tokenizer, token files, and which samples a step uses.
#include "stages/data/corpus_count.h"
#include "stages/data/corpus_encoder.h"
#include "stages/data/data_feed.h"
#include "stages/data/document_batches.h"
#include "stages/data/file_kind.h"
#include "stages/data/indexed_dataset.h"
#include "stages/data/text_files.h"
#include "stages/data/token_cache.h"
#include "stages/data/token_cache_pruning.h"
#include "stages/data/token_file.h"
#include "stages/data/token_scan.h"
#include "stages/tokenizers/tokenizer.h"
#include "stages/tokenizers/utf8.h"

#pragma once

// From text to microbatches: tokenizer, token files, and which samples a step uses.
#include "stages/corpus/samples/data_feed.h"
#include "stages/corpus/samples/document_batches.h"
#include "stages/corpus/text/corpus_count.h"
#include "stages/corpus/text/corpus_encoder.h"
#include "stages/corpus/text/file_kind.h"
#include "stages/corpus/text/indexed_dataset.h"
#include "stages/corpus/text/marks.h"
#include "stages/corpus/text/text_files.h"
#include "stages/corpus/tokenizers/text/utf8.h"
#include "stages/corpus/tokenizers/tokenizer.h"
#include "stages/corpus/tokens/token_cache.h"
#include "stages/corpus/tokens/token_cache_pruning.h"
#include "stages/corpus/tokens/token_file.h"
#include "stages/corpus/tokens/token_scan.h"

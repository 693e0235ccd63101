"""Public names of cuDF's classes, from the API reference of cuDF 26.10.

A name that is listed here but missing in the stand-in raises NotImplementedError, and the message
says what to use instead. A name that is not listed raises AttributeError, as in cuDF.
"""

from __future__ import annotations

_COMMON = """
abs add add_prefix add_suffix all any argsort astype at attrs axes backfill bfill clip
convert_dtypes copy corr count cov cummax cummin cumprod cumsum describe deserialize
device_deserialize device_serialize diff div divide dot drop drop_duplicates dropna dtypes
duplicated empty eq equals ewm explode ffill fillna first flags floordiv from_arrow from_pandas
from_pylibcudf ge groupby gt hash_values head host_deserialize host_serialize iat iloc index
interpolate isin isna isnull items keys kurt kurtosis last le loc lt map mask max mean median
memory_usage min mod mode mul multiply nans_to_nulls ndim ne nlargest notna notnull nsmallest
nunique pad pct_change pipe pow prod product quantile radd rank rdiv reindex rename repeat replace
resample reset_index rfloordiv rmod rmul rolling round rpow rsub rtruediv sample scale searchsorted
serialize shape shift size skew sort_index sort_values squeeze std sub subtract sum T tail take
tile to_arrow to_cupy to_dict to_dlpack to_hdf to_json to_numpy to_pandas to_pylibcudf to_string
transpose truediv truncate unstack update value_counts values values_host var where
"""

SERIES = frozenset(
    (
        _COMMON
        + """
apply autocorr between cat digitize dt dtype factorize from_categorical from_masked_array
has_nulls hasnans is_monotonic_decreasing is_monotonic_increasing is_unique list name null_count
nullable str struct to_frame to_list tolist unique valid_count
"""
    ).split()
)

DATAFRAME = frozenset(
    (
        _COMMON
        + """
agg apply apply_chunks apply_rows applymap assign columns eval from_dict from_records info insert
interleave_columns iterrows itertuples join melt merge nlargest partition_by_hash pivot pivot_table
pop query scatter_by_map select_dtypes set_index stack swaplevel to_csv to_feather to_orc to_parquet
to_records to_struct
"""
    ).split()
)

INDEX = frozenset(
    """
T all any append argsort astype codes copy day difference drop_duplicates droplevel dropna dtype
duplicated empty equals factorize fillna find_label_range from_arrays from_arrow from_frame
from_pandas from_product from_pylibcudf from_tuples get_indexer get_level_values get_loc
get_slice_bound has_duplicates hasnans hour inferred_type intersection is_boolean is_categorical
is_floating is_integer is_interval is_monotonic_decreasing is_monotonic_increasing is_numeric
is_object is_unique isin isna isnull join levels max memory_usage min minute month name names ndim
nlevels notna notnull nunique rename repeat searchsorted second serialize set_names shape shift
size sort_values start step stop str swaplevel take to_arrow to_cupy to_dlpack to_flat_index
to_frame to_list to_numpy to_pandas to_pylibcudf to_series tolist transpose union unique values
values_host where year microsecond nanosecond weekday dayofweek dayofyear day_of_year quarter
is_leap_year days_in_month day_name month_name ceil floor round isocalendar strftime tz_convert
tz_localize total_seconds
""".split()
)

GROUPBY = frozenset(
    """
agg aggregate all any apply bfill collect corr count cov cumcount cummax cummin cumprod cumsum
describe diff ffill fillna first get_group groups head indices idxmax idxmin last max mean median
min ngroup ngroups nth nunique pct_change pipe prod quantile rank rolling sample shift size std sum
tail transform unique value_counts var
""".split()
)

STR = frozenset(
    """
byte_count capitalize cat center character_ngrams character_tokenize code_points contains count
detokenize edit_distance edit_distance_matrix endswith extract filter_alphanum filter_characters
filter_tokens find find_multiple find_re findall get get_json_object hash_character_ngrams
hex_to_int htoi index insert ip2int ip_to_int is_consonant is_vowel isalnum isalpha isdecimal
isdigit isempty isfloat ishex isinteger isipv4 islower isnumeric isspace istimestamp istitle isupper
jaccard_index join len like ljust lower lstrip match minhash minhash64 ngrams ngrams_tokenize
normalize_characters normalize_spaces pad partition porter_stemmer_measure removeprefix removesuffix
repeat replace replace_tokens replace_with_backrefs rfind rindex rjust rpartition rsplit rstrip
slice slice_from slice_replace split split_part startswith strip swapcase title token_count tokenize
translate upper url_decode url_encode wrap zfill
""".split()
)

DT = frozenset(
    """
ceil components day day_name day_of_year dayofweek dayofyear days days_in_month floor hour
is_leap_year is_month_end is_month_start is_quarter_end is_quarter_start is_year_end is_year_start
isocalendar microsecond microseconds minute month month_name nanosecond nanoseconds quarter round
second seconds strftime total_seconds tz_convert tz_localize weekday year
""".split()
)

CAT = frozenset(
    """
add_categories as_ordered as_unordered categories codes ordered remove_categories
reorder_categories set_categories
""".split()
)

MODULE = frozenset(
    """
BaseIndex CategoricalDtype CategoricalIndex DataFrame DateOffset DatetimeIndex Decimal128Dtype
Decimal32Dtype Decimal64Dtype Grouper Index IntervalDtype IntervalIndex ListDtype MultiIndex NA NaT
RangeIndex Scalar Series StructDtype TimedeltaIndex api concat crosstab cut datasets date_range
describe_option dtype errors factorize from_dataframe from_dlpack from_pandas get_dummies
get_option interval_range io isclose melt merge option_context pivot pivot_table read_avro read_csv
read_feather read_hdf read_json read_orc read_parquet read_text set_allocator set_option testing
to_datetime to_numeric unique unstack
""".split()
)

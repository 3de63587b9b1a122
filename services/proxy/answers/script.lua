-- The response cache in Redis, each operation in one step. The store's whole layout is in this file; all keys carry
-- one hash tag, so that a cluster keeps them together. An entry's id is the microsecond at which it was stored, made
-- unique: a string of digits that sorts like the time.
--
--   keys          hash: key -> id
--   v:<id>        the answer; Redis itself drops it when its time is over
--   m:<id>        hash: k key, n namespace and w its version then, e expires (ms), u last used (ms), h hits, b bytes,
--                 a about, x names of its index sets, ten bytes each, t and s tokens and milliseconds that a hit saves
--   x:<name>      set of ids: one for each model, backend, scope, namespace and tag, and for each word
--   age, used, ends   zsets of ids by age, last use (ms) and end (ms)
--   versions      hash: namespace -> its version
--   d:<n>         set of ids that are dropped but still there; `doomed` is the set of those names
--   stats         hash: last id, floor (ids up to it are dropped), turn, bytes, and the counters
--
-- Dropping many entries takes effect at once, by renaming their index set or raising the floor; the entries then go in
-- small steps (`reap`), so that nobody waits for it. KEYS[1] is the common prefix; ARGV[1] names the operation.

local base, op = KEYS[1], ARGV[1]
local call = redis.call
local stats = base .. 'stats'
local time = call('TIME')
local now_us = tonumber(time[1]) * 1000000 + tonumber(time[2])
local now = math.floor(now_us / 1000)

local function whole(number) return string.format('%.0f', number) end
local function stat(name) return tonumber(call('HGET', stats, name) or '0') end
local function add(name, number) call('HINCRBY', stats, name, whole(number)) end

-- Forget an entry; its key, or nil where there was none.
local function remove(id, why)
  local meta = base .. 'm:' .. id
  local held = call('HMGET', meta, 'k', 'b', 'x')
  call('ZREM', base .. 'age', id)
  call('ZREM', base .. 'used', id)
  call('ZREM', base .. 'ends', id)
  call('UNLINK', meta, base .. 'v:' .. id)
  if not held[1] then return nil end
  for name in string.gmatch(held[3], '..........') do call('SREM', base .. 'x:' .. name, id) end
  if call('HGET', base .. 'keys', held[1]) == id then call('HDEL', base .. 'keys', held[1]) end
  add('bytes', -tonumber(held[2]))
  if why then add(why, 1) end
  return held[1]
end

local function dropped(id)
  if tonumber(id) <= stat('floor') then return true end
  for _, name in ipairs(call('SMEMBERS', base .. 'doomed')) do
    if call('SISMEMBER', base .. 'd:' .. name, id) == 1 then return true end
  end
  return false
end

local function version(namespace) return call('HGET', base .. 'versions', namespace) or '0' end

-- The id of the live entry under a key, or nil.
local function live(key)
  local id = call('HGET', base .. 'keys', key)
  if not id then return nil end
  local held = call('HMGET', base .. 'm:' .. id, 'e', 'n', 'w')
  if tonumber(held[1] or '0') <= now then
    remove(id, 'expired')
    return nil
  end
  if version(held[2]) ~= held[3] or dropped(id) then return nil end
  return id
end

-- One step of housekeeping, of at most `limit` entries: dropped ones, ended ones, then the least recently used ones
-- while there is too much. Returns keys of dropped entries and whether there may be more to do.
local function reap(limit, cap)
  local keys, left = {}, limit
  local function take(ids, why)
    for _, id in ipairs(ids) do
      local key = remove(id, why)
      if key and why == 'invalidated' then keys[#keys + 1] = key end
      left = left - 1
    end
  end
  for _, name in ipairs(call('SMEMBERS', base .. 'doomed')) do
    if left > 0 then
      take(call('SPOP', base .. 'd:' .. name, left), 'invalidated')
      if call('EXISTS', base .. 'd:' .. name) == 0 then call('SREM', base .. 'doomed', name) end
    end
  end
  local floor = stat('floor')
  if left > 0 and floor > 0 then
    take(call('ZRANGEBYSCORE', base .. 'age', '-inf', whole(floor), 'LIMIT', 0, left), 'invalidated')
  end
  if left > 0 then
    take(call('ZRANGEBYSCORE', base .. 'ends', '-inf', now, 'LIMIT', 0, left), 'expired')
  end
  while left > 0 and stat('bytes') > cap do
    local oldest = call('ZRANGE', base .. 'used', 0, 0)
    if not oldest[1] then call('HDEL', stats, 'bytes'); break end
    take(oldest, 'evicted')
  end
  return {left <= 0 and 1 or 0, keys}
end

-- get key counted: 0 no, 1 as a hit or a miss, 2 as a hit in place of the miss that it counted as before
if op == 'get' then
  local id = live(ARGV[2])
  local value = id and call('GET', base .. 'v:' .. id)
  if id and not value then
    remove(id, 'expired')
    id = nil
  end
  local counted = ARGV[3] ~= '0'
  if not id then
    if ARGV[3] == '1' then add('misses', 1) end
    return {stat('turn'), false}
  end
  local meta = base .. 'm:' .. id
  call('HSET', meta, 'u', now)
  call('ZADD', base .. 'used', now, id)
  if counted then
    local saved = call('HMGET', meta, 't', 's')
    call('HINCRBY', meta, 'h', 1)
    add('hits', 1)
    if ARGV[3] == '2' then add('misses', -1) end
    add('saved_tokens', tonumber(saved[1]))
    add('saved_ms', tonumber(saved[2]))
  end
  return {stat('turn'), value}
end

-- put key namespace turn ttl_ms bytes cap tokens ms about names value
if op == 'put' then
  if ARGV[4] ~= whole(stat('turn')) then return 0 end
  local old = call('HGET', base .. 'keys', ARGV[2])
  if old then remove(old) end
  local id = whole(math.max(now_us, stat('last') + 1))
  local ends = whole(now + tonumber(ARGV[5]))
  call('HSET', stats, 'last', id)
  call('HSET', base .. 'keys', ARGV[2], id)
  call('SET', base .. 'v:' .. id, ARGV[12], 'PXAT', ends)
  call('HSET', base .. 'm:' .. id, 'k', ARGV[2], 'n', ARGV[3], 'w', version(ARGV[3]), 'e', ends, 'u', now, 'h', 0,
    'b', ARGV[6], 't', ARGV[8], 's', ARGV[9], 'a', ARGV[10], 'x', ARGV[11])
  call('ZADD', base .. 'age', id, id)
  call('ZADD', base .. 'used', now, id)
  call('ZADD', base .. 'ends', ends, id)
  for index in string.gmatch(ARGV[11], '..........') do call('SADD', base .. 'x:' .. index, id) end
  add('bytes', tonumber(ARGV[6]))
  add('stored', 1)
  return 1 + reap(32, tonumber(ARGV[7]))[1]
end

-- stats
if op == 'stats' then
  return {call('ZCARD', base .. 'age'), call('HGETALL', stats)}
end

-- list below limit: live entries, newest first, and the id to go on below
if op == 'list' then
  local found = {}
  local ids = call('ZREVRANGEBYSCORE', base .. 'age', ARGV[2], '-inf', 'LIMIT', 0, ARGV[3])
  for _, id in ipairs(ids) do
    local held = call('HMGET', base .. 'm:' .. id, 'k', 'e', 'u', 'h', 'b', 'a')
    if held[1] and tonumber(held[2]) > now and not dropped(id) then
      found[#found + 1] = {id, held[1], held[2], held[3], held[4], held[5], held[6]}
    end
  end
  return {found, #ids == tonumber(ARGV[3]) and ids[#ids] or false}
end

-- drop dry key namespace older_us every common names...: how many entries everything given applies to; unless dry they
-- are dropped. `every` is the set of the entries with too many words, which stand in no set of a word: it takes the
-- place of all names after the first `common`. A namespace to begin anew comes with its own set and nothing else; an
-- age and nothing else is everything of that age.
if op == 'drop' then
  local dry, key, namespace, older = ARGV[2] == '1', ARGV[3], ARGV[4], tonumber(ARGV[5])
  local sets, long = {}, {}
  for i = 8, #ARGV do
    sets[#sets + 1] = base .. 'x:' .. ARGV[i]
    if i - 7 <= tonumber(ARGV[7]) then long[#long + 1] = sets[#sets] end
  end
  local limit = older >= 0 and now_us - older or nil
  local turn = whole(stat('turn') + 1)
  local target = base .. 'd:' .. turn
  local count = 0

  local function take(ids)
    for _, id in ipairs(ids) do
      if not limit or tonumber(id) <= limit then
        count = count + 1
        if not dry then call('SADD', target, id) end
      end
    end
  end

  if key ~= '' then
    local id = live(key)
    for _, set in ipairs(sets) do
      if id and call('SISMEMBER', set, id) == 0 then id = nil end
    end
    take({id})
  elseif #sets == 0 then
    local floor = math.min(limit, stat('last'))
    count = call('ZCOUNT', base .. 'age', '-inf', whole(floor))
    if not dry then call('HSET', stats, 'floor', whole(math.max(floor, stat('floor')))) end
  elseif #sets == 1 and not limit and ARGV[6] == '' then
    count = call('SCARD', sets[1])
    if not dry and count > 0 then call('RENAME', sets[1], target) end
  else
    take(call('SINTER', unpack(sets)))
    if ARGV[6] ~= '' then
      long[#long + 1] = base .. 'x:' .. ARGV[6]
      take(call('SINTER', unpack(long)))
    end
  end
  if not dry then
    if call('EXISTS', target) == 1 then call('SADD', base .. 'doomed', turn) end
    if namespace ~= '' then call('HINCRBY', base .. 'versions', namespace, 1) end
    call('HSET', stats, 'turn', turn)
  end
  return count
end

-- reap limit cap
return reap(tonumber(ARGV[2]), tonumber(ARGV[3]))

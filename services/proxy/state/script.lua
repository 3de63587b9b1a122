-- Looks up and registers one request, in one step. The store's whole layout is in this file; all keys carry one
-- hash tag, so that a cluster keeps them together. Nothing but hashes, sizes, names and counts is kept.
--
--   n:<id>        hash: n node, k its index keys, l lineage, s settled, m marks, b backend, o model
--   i:<digest>    list of ids, newest first: by recency, session, first message or tools
--   l:<lineage>   list of ids, newest first         lineages   zset of lineages by last request
--   p:<digest>    hash of a shared part             parts      zset of part keys by last request
--   x             zset of request chains            lru, sz    zset of ids by arrival, hash of their bytes
--   c:<backend>   list of call ids, newest first    ch:<backend>  hash: <id> call, s:<id> settled, l:<id> lineage
--   bytes         estimated bytes of all nodes
--
-- KEYS[1] is the common prefix; ARGV[1] names the operation; the rest is read below.

local base, op = KEYS[1], ARGV[1]
local call = redis.call

local function forget(id)
  local key = base .. 'n:' .. id
  local held = call('HMGET', key, 'k', 'l')
  if held[1] then
    for index in string.gmatch(held[1], '..........') do call('LREM', base .. 'i:' .. index, 0, id) end
  end
  if held[2] then
    call('LREM', base .. 'l:' .. held[2], 0, id)
    if call('EXISTS', base .. 'l:' .. held[2]) == 0 then call('ZREM', base .. 'lineages', held[2]) end
  end
  call('DEL', key)
  call('ZREM', base .. 'lru', id)
  local size = tonumber(call('HGET', base .. 'sz', id) or '0')
  call('HDEL', base .. 'sz', id)
  call('INCRBY', base .. 'bytes', -size)
end

local function weigh(id, change)
  if change ~= 0 then
    call('HINCRBY', base .. 'sz', id, change)
    call('INCRBY', base .. 'bytes', change)
  end
end

local function shrink(cap)
  for _ = 1, 64 do
    if tonumber(call('GET', base .. 'bytes') or '0') <= cap then return end
    local oldest = call('ZRANGE', base .. 'lru', 0, 0)[1]
    if not oldest then call('DEL', base .. 'bytes'); return end
    forget(oldest)
  end
end

local function expire(now, ttl)
  for _, id in ipairs(call('ZRANGEBYSCORE', base .. 'lru', '-inf', now - ttl, 'LIMIT', 0, 32)) do forget(id) end
  call('ZREMRANGEBYSCORE', base .. 'x', '-inf', now - ttl)
  for _, name in ipairs({'lru', 'sz', 'bytes', 'x', 'parts', 'lineages'}) do call('PEXPIRE', base .. name, 2 * ttl) end
end

local function see(part, now, ttl, cap, agent, meta)
  local key = base .. 'p:' .. part
  local seen = call('EXISTS', key) == 1
  if not seen then call('HSET', key, 'meta', meta, 'first', now) end
  call('HSET', key, 'last', now)
  call('HINCRBY', key, 'count', 1)
  local field = 'a:' .. agent
  if call('HLEN', key) > 36 and call('HEXISTS', key, field) == 0 then field = 'a:other' end
  call('HINCRBY', key, field, 1)
  call('PEXPIRE', key, ttl)
  call('ZADD', base .. 'parts', now, part)
  for _, old in ipairs(call('ZRANGEBYSCORE', base .. 'parts', '-inf', now - ttl, 'LIMIT', 0, 32)) do
    call('ZREM', base .. 'parts', old)
  end
  while call('ZCARD', base .. 'parts') > cap do
    call('DEL', base .. 'p:' .. call('ZPOPMIN', base .. 'parts')[1])
  end
  return seen and 1 or 0
end

local function timeline(backend, id, packed, keep, ttl)
  local list, hash = base .. 'c:' .. backend, base .. 'ch:' .. backend
  local fields = {}
  for _, other in ipairs(call('LRANGE', list, 0, keep - 1)) do
    if other ~= id then
      fields[#fields + 1] = other
      fields[#fields + 1] = 's:' .. other
      fields[#fields + 1] = 'l:' .. other
    end
  end
  local found = #fields > 0 and call('HMGET', hash, unpack(fields)) or {}
  if call('HSETNX', hash, id, packed) == 1 then
    call('LPUSH', list, id)
    while call('LLEN', list) > keep do
      local old = call('RPOP', list)
      call('HDEL', hash, old, 's:' .. old, 'l:' .. old)
    end
  end
  call('PEXPIRE', list, ttl)
  call('PEXPIRE', hash, ttl)
  return found
end

if op == 'place' then
  local now, ttl, id, backend, packed, keep = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5], ARGV[6], tonumber(ARGV[7])
  local calls = timeline(backend, id, packed, keep, ttl)
  local node = ARGV[8]
  if node == '' then return {0, 0, 0, {}, calls} end
  local chain, agent, part_cap, chain_cap, node_cap = ARGV[9], ARGV[10], tonumber(ARGV[11]), tonumber(ARGV[12]), tonumber(ARGV[13])
  local cost, name, model = tonumber(ARGV[14]), ARGV[15], ARGV[16]
  local parts, indices = tonumber(ARGV[17]), tonumber(ARGV[18])
  expire(now, ttl)
  local at, seen = 19, {}
  for _ = 1, parts do
    seen[ARGV[at]] = see(ARGV[at + 1], now, ttl, part_cap, agent, ARGV[at + 2])
    at = at + 3
  end
  local exact = call('ZSCORE', base .. 'x', chain) and 1 or 0
  call('ZADD', base .. 'x', now, chain)
  local spare = call('ZCARD', base .. 'x') - chain_cap
  if spare > 0 then call('ZPOPMIN', base .. 'x', spare) end
  local found, known, keys = {}, {[id] = true}, {}
  for _ = 1, indices do
    local list, limit = base .. 'i:' .. ARGV[at], tonumber(ARGV[at + 1])
    for _, other in ipairs(call('LRANGE', list, 0, limit - 1)) do
      if not known[other] then
        known[other] = true
        local held = call('HMGET', base .. 'n:' .. other, 'n', 's')
        if held[1] then
          found[#found + 1] = held[1]
          found[#found + 1] = held[2]
        end
      end
    end
    keys[#keys + 1] = ARGV[at]
    call('LREM', list, 0, id)
    call('LPUSH', list, id)
    call('LTRIM', list, 0, limit - 1)
    call('PEXPIRE', list, ttl)
    at = at + 2
  end
  local key = base .. 'n:' .. id
  call('HSET', key, 'n', node, 'k', table.concat(keys), 'b', name, 'o', model)
  call('PEXPIRE', key, ttl)
  call('ZADD', base .. 'lru', now, id)
  weigh(id, cost + #node - tonumber(call('HGET', base .. 'sz', id) or '0'))
  shrink(node_cap)
  return {seen.system or 0, seen.tools or seen.bare or 0, exact, found, calls}
end

if op == 'adopt' then
  local id, node, lineage, backend, at, keep, ttl = ARGV[2], ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
  local hash = base .. 'ch:' .. backend
  if call('HEXISTS', hash, id) == 1 then call('HSET', hash, 'l:' .. id, lineage) end
  local key, list = base .. 'n:' .. id, base .. 'l:' .. lineage
  if call('EXISTS', key) == 0 then return 0 end
  local before = call('HGET', key, 'l')
  if before then call('LREM', base .. 'l:' .. before, 0, id) end
  call('HSET', key, 'n', node, 'l', lineage)
  call('LPUSH', list, id)
  call('PEXPIRE', list, ttl)
  call('ZADD', base .. 'lineages', at, lineage)
  while call('LLEN', list) > keep do forget(call('LINDEX', list, -1)) end
  return 1
end

if op == 'settle' then
  local id, backend, settled, marks, marked, cap = ARGV[2], ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7])
  local hash, key = base .. 'ch:' .. backend, base .. 'n:' .. id
  if call('HEXISTS', hash, id) == 1 then call('HSET', hash, 's:' .. id, settled) end
  if call('EXISTS', key) == 0 then return 0 end
  weigh(id, #settled - call('HSTRLEN', key, 's'))
  call('HSET', key, 's', settled)
  if marks ~= '' then
    weigh(id, #marks - call('HSTRLEN', key, 'm'))
    call('HSET', key, 'm', marks)
    local lineage = call('HGET', key, 'l')
    if lineage then
      for _, old in ipairs(call('LRANGE', base .. 'l:' .. lineage, marked, -1)) do
        weigh(old, -call('HSTRLEN', base .. 'n:' .. old, 'm'))
        call('HDEL', base .. 'n:' .. old, 'm')
      end
    end
  end
  shrink(cap)
  return 1
end

if op == 'overview' then
  local limit, lineages, parts = tonumber(ARGV[2]), {}, {}
  for _, lineage in ipairs(call('ZREVRANGE', base .. 'lineages', 0, limit - 1)) do
    local list = base .. 'l:' .. lineage
    local id = call('LINDEX', list, 0)
    if id then
      local held = call('HMGET', base .. 'n:' .. id, 'n', 's', 'b', 'o')
      if held[1] then lineages[#lineages + 1] = {held[1], held[2], held[3], held[4], call('LLEN', list)} end
    end
  end
  for _, part in ipairs(call('ZREVRANGE', base .. 'parts', 0, limit - 1)) do
    parts[#parts + 1] = call('HGETALL', base .. 'p:' .. part)
  end
  return {lineages, parts}
end

return redis.error_reply('unknown operation')

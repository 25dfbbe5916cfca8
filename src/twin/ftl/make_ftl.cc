#include "ftl/make_ftl.h"
#include "ftl/page_ftl.h"
namespace twin { std::unique_ptr<Ftl> make_ftl(const Parameters& p, EventQueue& e, FtlClient& c, Counters& n){return std::make_unique<PageFtl>(p,e,c,n);} }
